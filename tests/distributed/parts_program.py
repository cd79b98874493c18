"""What each rank does that brings a part of the data; one process with all of them is the truth.

torchrun --nproc-per-node 3 -m tests.distributed.parts_program OUT
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from benchmarks.distributed import tensors_of
from torch.utils._python_dispatch import TorchDispatchMode

import nopg
from nopg.bellman import sharded
from nopg.errors import ConfigError
from nopg.linalg import ranks as messages
from nopg.linalg.ranks import Ranks, joined_ranks
from tests.distributed.rank_program import Answers
from tests.problems import KINDS, small_problem

SHARES = {2: (0.31,), 3: (0.2, 0.27)}
"""Where one part ends and the next begins: uneven ones."""
CASES = {
    f"{rows}-{kind}-{n}": (rows, kind, n)
    for rows in ("nadaraya-watson", "matched")
    for kind in KINDS
    for n in (97, 331)
    if rows == "nadaraya-watson" or kind not in ("kernel-average", "analytic")
}
WIDTHS = nopg.Bandwidths([0.4, 0.4, 1.5], [1.0])


def swings(n: int, seed: int = 0, noise: float = 0.0) -> nopg.Dataset:
    """Random transitions of a pendulum in episodes of ten: cosine, sine, velocity; torque."""
    rng = np.random.default_rng(seed)
    angle, velocity = rng.uniform(-np.pi, np.pi, n), rng.uniform(-6.0, 6.0, n)
    torque = rng.uniform(-2.0, 2.0, (n, 1))
    then = velocity + 0.1 * (10.0 * np.sin(angle) + 3.0 * torque[:, 0])
    after = angle + 0.1 * then

    def states(x: Any, v: Any) -> Any:
        return np.column_stack([np.cos(x), np.sin(x), v])

    rewards = -(angle**2) - 0.1 * velocity**2
    ends, ids = np.zeros(n, dtype=bool), np.arange(n) // 10
    after += noise * rng.normal(size=n)
    return nopg.Dataset(
        states(angle, velocity), torque, rewards, states(after, then), ends, episodes=ids
    )


def labelled(n: int) -> nopg.Dataset:
    """The same with labels, of which the last comes in the last rows alone."""
    data = swings(n)
    labels = (data.actions[:, 0] > 0.0).astype(np.int64)
    labels[-n // 5 :] += 1
    return replace(data, actions=labels, action_names=("push",))


def own_part(data: nopg.Dataset, ranks: Ranks | None) -> nopg.Dataset:
    """The rows of one rank; all of them without ranks. Episodes stay whole."""
    if ranks is None:
        return data
    unit = 1 if data.episodes is None else 10
    ends = [0, *(int(len(data) * s) // unit * unit for s in SHARES[ranks.size]), len(data)]
    return data.subset(np.arange(ends[ranks.rank], ends[ranks.rank + 1]))


def equations(ranks: Ranks | None) -> Answers:
    """q, mu, J, its certificate, the gradient and a few values of every case."""
    found: Answers = {}
    for name, (rows, kind, n) in CASES.items():
        problem = small_problem(kind, n=n, state_bandwidth=0.3, next_state_samples=1)
        problem = replace(problem, data=own_part(problem.data, ranks))
        equation = problem.equation(neighbours=23, ranks=ranks, rows=rows)
        objective = equation.objective
        found[f"{name}/q"], found[f"{name}/mu"] = equation.q.numpy(), equation.mu.numpy()
        found[f"{name}/J"] = np.array([float(objective)])
        bounds = [objective.truncation_error, objective.solver_error]
        found[f"{name}/certificate"] = np.array(bounds)
        found[f"{name}/gradient"] = equation.gradient().numpy()
        found[f"{name}/value"] = equation.value(problem.initial_states + 0.1).numpy()
    return found


def trained(ranks: Ranks | None, data: nopg.Dataset, **settings: Any) -> Answers:
    """The policy after a few updates from chosen or given bandwidths, and what it says."""
    how = {"seed": 0, "rtol": 1e-11, "final_rtol": 1e-12} | settings
    fitted = nopg.NOPG(**how).fit(own_part(data, ranks), None, 5, progress=False, ranks=ranks)
    assert fitted.problem is not None
    solution, order = fitted.kernel.solution, fitted.problem.samples.in_original_order
    parameters = [p.detach().reshape(-1) for p in fitted.policy.parameters()]
    return {
        "parameters": torch.cat(parameters).numpy(),
        "J": np.array([float(fitted.kernel.objective())]),
        "gradient": fitted.kernel.gradient().numpy(),
        "q": order(solution.q.value).numpy(),
        "mu": order(solution.mu.value).numpy(),
        "bandwidths": np.array([*fitted.bandwidths.state, *fitted.bandwidths.action]),
    }


FITS: dict[str, Callable[[Ranks | None], Answers]] = {
    "defaults": lambda ranks: trained(ranks, swings(400)),
    "noisy": lambda ranks: trained(ranks, swings(150, noise=0.3), gamma=0.6),
    "labels": lambda ranks: trained(ranks, labelled(150), policy="discrete", gamma=0.6),
    "ordered": lambda ranks: trained(ranks, swings(13_000), bandwidths=WIDTHS, search_start=False),
    "few seen": lambda ranks: trained(
        ranks, swings(2_000), bandwidths=WIDTHS, search_start=False, standardise=False
    ),
}
FEW = 100  # rows that "few seen" chooses from, and that it passes round at a time


def fits(ranks: Ranks | None) -> Answers:
    """Every training; the last with small samples and messages."""
    found: Answers = {}
    for name, fit in FITS.items():
        if name == "few seen":
            sharded.SEEN = messages.PASSED = FEW
        found |= {f"{name}/{key}": value for key, value in fit(ranks).items()}
    return found


class StateWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every tensor that is made, and counts the rows of those that are states."""

    most = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else [made]:
            if isinstance(one, torch.Tensor) and one.ndim > 1 and one.shape[-1] == 3 and len(one):
                # In any units, as long as cosine and sine have the same.
                radius = one[..., :2].square().sum(dim=-1)
                if float(radius.max() - radius.min()) < 1e-9 < float(radius.min()):
                    self.most = max(self.most, radius.numel())
        return made


def memory(ranks: Ranks | None, out: Path) -> Answers:
    """Most rows of states that a training ever has in a tensor, and what is kept of it."""
    data, starts = own_part(swings(2_000), ranks), swings(5).observations
    model = nopg.NOPG(bandwidths=WIDTHS, rows="nadaraya-watson", neighbours=16)
    watch: Any = cast(Any, StateWatch)()
    with watch:
        fitted = model.fit(data, starts, 1, progress=False, ranks=ranks)
    fitted.save(out / "policy.nopg")
    loaded = nopg.load(out / "policy.nopg")
    kept = tensors_of(fitted.problem)
    wide = [len(one) for one in kept if one.ndim == 2 and one.shape[1] == 3]
    return {
        "own": np.array([len(data)]),
        "saved": np.array([len(loaded.require_data())]),
        "return": np.array([loaded.expected_return(None).value]),
        "most": np.array([watch.most]),
        "wide": np.array([max(wide)]),
        "bytes": np.array([sum(one.numel() * one.element_size() for one in kept)]),
    }


REFUSED: dict[str, Callable[[Ranks], Any]] = {
    "none": lambda r: nopg.NOPG().fit(cast(Any, None if r.is_first else swings(200)), ranks=r),
    "names": lambda r: nopg.NOPG().fit(
        replace(swings(200), observation_names=("c", "s", f"v{r.rank}")), ranks=r
    ),
    "episodes": lambda r: nopg.NOPG().fit(
        swings(200) if r.is_first else replace(swings(200), episodes=None), ranks=r
    ),
    "settings": lambda r: nopg.NOPG(gamma=0.9 + 0.01 * r.rank).fit(swings(200, r.rank), ranks=r),
    "starts": lambda r: nopg.NOPG(bandwidths=WIDTHS).fit(
        swings(200, r.rank), [[1.0, 0.0, 0.1 * r.rank]], ranks=r
    ),
    "auto": lambda r: nopg.NOPG(rows="nadaraya-watson").fit(swings(200, r.rank), ranks=r),
    "empty": lambda r: nopg.NOPG(neighbours=0).fit(swings(100, r.rank), ranks=r),
    "complete": lambda r: nopg.NOPG(neighbours=200).fit(swings(100, r.rank), ranks=r),
    "drawn": lambda r: nopg.NOPG(next_state_samples=2).fit(swings(200, r.rank), ranks=r),
    "interval": lambda r: (
        nopg.NOPG(bandwidths=WIDTHS, search_start=False)
        .fit(swings(200, r.rank), None, 1, progress=False, ranks=r)
        .expected_return()
    ),
}


def main() -> None:
    """Join, answer, and leave the answers in a folder."""
    out = Path(sys.argv[1])
    torch.set_num_threads(1)
    with joined_ranks(timeout=100, shares_data=True) as ranks:
        answers = equations(ranks) | fits(ranks)
        folder = out / str(ranks.rank)
        folder.mkdir()
        answers |= {f"memory/{name}": value for name, value in memory(ranks, folder).items()}
        for name, attempt in REFUSED.items():
            said = "not refused"
            try:
                attempt(ranks)
            except ConfigError as error:
                said = str(error)
            (out / f"{name}{ranks.rank}.txt").write_text(said)
        np.savez(out / f"rank{ranks.rank}.npz", **answers)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
