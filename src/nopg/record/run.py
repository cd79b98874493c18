"""Puts the pieces together and records until the person is done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnasium.spaces import Box, Discrete

from nopg.data.locks import exclusive
from nopg.errors import ConfigError, NopgError
from nopg.record.access import LOOPBACK, Tickets
from nopg.record.config import RecordConfig
from nopg.record.continuous import continuous_pilot
from nopg.record.demonstrations import Demonstrations, Layout, open_demonstrations
from nopg.record.discrete import discrete_pilot
from nopg.record.known import Known, known
from nopg.record.link import Link
from nopg.record.loop import Loop
from nopg.record.pilot import AbstractPilot
from nopg.record.protocol import welcome
from nopg.record.ramp import Ramp
from nopg.record.server import bind, make_app, missing_extra, serving
from nopg.record.session import Session
from nopg.record.simulator import Simulator

if TYPE_CHECKING:
    from starlette.types import ASGIApp


@dataclass(frozen=True)
class Summary:
    """What a recording left behind."""

    path: Path
    n_new: int
    """Episodes recorded this time."""
    n_episodes: int
    """Episodes in the file."""
    n_transitions: int
    """Transitions in the file."""


def record(
    config: RecordConfig,
    *,
    announce: Callable[[str], None] = lambda sentence: None,
    show: Callable[[str], None] = lambda address: None,
) -> Summary:
    """Serve the page and record until it is done or Ctrl-C is pressed.

    Args:
        config: What to record, and where to.
        announce: Told in one sentence what happens.
        show: Given the page's address, which works once, and a new one whenever the
            page was closed.

    Raises:
        ConfigError: If the environment or the file does not fit.
        NopgError: If another recorder has the file open.
    """
    path = config.out.expanduser().resolve()
    with closing(Simulator(config.environment, config.max_steps)) as simulator:
        about = known(config.environment)
        pilot = _pilot(simulator, about, config)
        layout = _layout(simulator, about, pilot)
        # Beside the file, because the file itself is replaced at every save.
        beside = path.with_name(f".{path.name}.lock")
        with exclusive(beside, str(path), "recorder"):
            demonstrations = open_demonstrations(path, layout, append=config.append)
            session = Session(
                simulator,
                pilot,
                demonstrations,
                seed=config.seed,
                wanted=config.episodes,
                announce=announce,
            )
            try:
                _serve(config, session, simulator, pilot, demonstrations, show)
            except KeyboardInterrupt:
                announce("Stopped.")
            except NopgError:
                announce(f"{demonstrations.n_new} finished episodes are in {path}.")
                raise
    return Summary(
        path,
        demonstrations.n_new,
        demonstrations.n_episodes,
        demonstrations.n_transitions,
    )


def _serve(
    config: RecordConfig,
    session: Session,
    simulator: Simulator,
    pilot: AbstractPilot,
    demonstrations: Demonstrations,
    show: Callable[[str], None],
) -> None:
    link, tickets, listener = Link(), Tickets(), bind(config.port)
    port, fps = listener.getsockname()[1], config.fps or simulator.fps
    greeting = welcome(
        session,
        pilot,
        environment=config.environment,
        file=demonstrations.path.name,
        fps=fps,
        limit=simulator.limit,
        observation_names=_observation_names(simulator, known(config.environment)),
    )

    def invite() -> None:
        show(f"http://{LOOPBACK}:{port}/#ticket={tickets.issue()}")

    loop = Loop(session, simulator, demonstrations, link, fps=fps, invite=invite)
    # Closed here too: where a package is missing nobody serves, and nobody else would.
    with closing(listener), serving(_app(link, tickets, greeting, port), listener):
        try:
            invite()
            loop.run()
        finally:
            link.close()


def _app(link: Link, tickets: Tickets, greeting: dict[str, Any], port: int) -> ASGIApp:
    try:
        return make_app(link, tickets, greeting, port)
    except ImportError as error:
        raise missing_extra(error) from error


def _pilot(simulator: Simulator, about: Known, config: RecordConfig) -> AbstractPilot:
    space = simulator.action_space
    if isinstance(space, Box):
        if config.idle is not None:
            raise ConfigError(
                f"`idle` chooses a label of a discrete action, but {space} is "
                "continuous and rests at 0; leave it out."
            )
        ramp = Ramp(rise=config.rise, fall=config.fall)
        seconds = 1.0 / (config.fps or simulator.fps)
        return continuous_pilot(
            space, about, ramp=ramp, seconds=seconds, keys=config.keys
        )
    if isinstance(space, Discrete):
        return discrete_pilot(space, about, keys=config.keys, idle=config.idle)
    raise ConfigError(
        f"The action space must be a Box vector or Discrete, got {space}; wrap the "
        "environment so that it has one of these."
    )


def _layout(simulator: Simulator, about: Known, pilot: AbstractPilot) -> Layout:
    is_continuous = pilot.kind == "continuous"
    return Layout(
        observation_space=simulator.observation_space,
        action_space=simulator.action_space,
        observation_names=_observation_names(simulator, about),
        action_names=(
            tuple(lever.name for lever in pilot.levers)
            if is_continuous
            else ("action",)
        ),
    )


def _observation_names(simulator: Simulator, about: Known) -> tuple[str, ...]:
    (count,) = simulator.observation_space.shape
    names = about.observations or ()
    return names if len(names) == count else tuple(f"s{i}" for i in range(count))
