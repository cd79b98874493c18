"""Records demonstrations: the settings, the pieces put together, the outcome."""

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from gymnasium.spaces import Box, Discrete

from nopg.data.files import exclusive
from nopg.errors import ConfigError, NopgError
from nopg.record.loop import Link, Loop
from nopg.record.protocol import welcome
from nopg.record.server import LOOPBACK, bind, serving
from nopg.record.session import Demonstrations, Session
from nopg.record.simulator import Simulator
from nopg.record.teleop import ContinuousTeleop, DiscreteTeleop, Teleop, fitting, known_names

_RANGES: dict[str, tuple[float, float]] = {"episodes": (1, math.inf), "max_steps": (1, math.inf)}
_RANGES |= {"seed": (0, math.inf), "fps": (0.1, 240), "port": (0, 65535)}


@dataclass(frozen=True, kw_only=True)
class RecordConfig:
    """What to record, and where to."""

    environment: str  # a Gymnasium id, or `module:Id`
    out: Path  # the `.npz` file the episodes go to, a new one
    episodes: int | None = None  # episodes to record, None for as many as you like
    fps: float | None = None  # steps per second, None for what the environment declares
    seed: int = 0  # root of the seeds of the starts
    max_steps: int | None = None  # time limit, None for the environment's own
    port: int = 0  # port on the loopback address, 0 for any free one

    def __post_init__(self) -> None:
        if self.out.suffix != ".npz":
            raise ConfigError(f"`out` must be a file ending in .npz, got {self.out.name}.")
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ConfigError(f"`{name}` must lie between {low:g} and {high:g}, got {value}.")


def record(
    config: RecordConfig,  # what to record, and where to
    *,
    announce: Callable[[str], None] = lambda sentence: None,  # what happened
    show: Callable[[str], None] = lambda address: None,  # of the page; it works once
) -> Demonstrations:
    """Serve the page and record until it is done or Ctrl-C is pressed."""
    path = config.out.expanduser().resolve()
    with closing(Simulator(config.environment, config.max_steps)) as simulator:
        observations, actions = known_names(config.environment)
        if isinstance(space := simulator.action_space, Discrete):
            teleop: Teleop = DiscreteTeleop(space, actions)
        elif isinstance(space, Box):
            teleop = ContinuousTeleop(space, actions, seconds=1.0 / (config.fps or simulator.fps))
        else:
            raise ConfigError(f"Actions must be a Box vector or Discrete, got {space}; wrap them.")
        (n_columns,) = simulator.observation_space.shape
        columns = {
            "observation_space": simulator.observation_space,
            "action_space": simulator.action_space,
            "observation_names": fitting(observations, n_columns, "s"),
            "action_names": teleop.names if isinstance(teleop, ContinuousTeleop) else ("action",),
        }
        # Beside the file, because the file itself is replaced at every save.
        with exclusive(path.with_name(f".{path.name}.lock"), str(path), "recorder"):
            file = Demonstrations(path, columns)
            session = Session(
                simulator, teleop, file, seed=config.seed, wanted=config.episodes, announce=announce
            )
            try:
                _serve(config, session, show)
            except KeyboardInterrupt:
                announce("Stopped.")
            except NopgError:
                announce(f"{file.n_episodes} finished episodes are in {path}.")
                raise
    return file


def _serve(config: RecordConfig, session: Session, show: Callable[[str], None]) -> None:
    link, listener = Link(), bind(config.port)
    # Closed here too: where a package is missing nobody serves, and nobody else would.
    with closing(listener):
        port, fps = listener.getsockname()[1], config.fps or session.simulator.fps
        page = f"http://{LOOPBACK}:{port}/#ticket="
        greeting = welcome(session, environment=config.environment, fps=fps)
        loop = Loop(session, link, fps=fps, invite=lambda: show(page + link.ticket))
        with serving(link, greeting, listener):
            loop.run()
