"""What each rank of the tests runs; one process without ranks gives the truth.

torchrun --nproc-per-node 2 -m tests.distributed.rank_program answers OUT TIMEOUT
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.errors import ConfigError, NopgError
from nopg.linalg.ranks import Ranks, joined_ranks
from tests.problems import KINDS, small_problem

Answers = dict[str, NDArray[np.float64]]

CASES = {
    f"{kind}-{n}-{neighbours}": (kind, n, neighbours)
    for kind in KINDS
    for n, neighbours in ((41, None), (331, 23), (331, "auto"))
}
"""Sizes no two ranks share evenly, solved directly and iteratively."""
GIVEN = nopg.Bandwidths([0.3, 0.3, 1.0], [1.5])


def equations(ranks: Ranks | None) -> Answers:
    """q, mu, J and the gradient of every case."""
    found: Answers = {}
    for name, (kind, n, neighbours) in CASES.items():
        problem = small_problem(kind, n=n, state_bandwidth=0.3)
        equation = problem.equation(neighbours=neighbours, ranks=ranks)
        found[f"{name}/q"] = equation.q.numpy()
        found[f"{name}/mu"] = equation.mu.numpy()
        objective = equation.objective
        bounds = [objective.truncation_error, objective.solver_error]
        found[f"{name}/J"] = np.array([float(objective)])
        found[f"{name}/certificate"] = np.array(bounds)
        found[f"{name}/gradient"] = equation.gradient().numpy()
        found[f"{name}/P"] = equation.transition_matrix().numpy()
    return found


def trained(ranks: Ranks | None, seed: int = 0) -> Answers:
    """The parameters after a few updates, and what the model says then."""
    # Tightly: alone a process solves with a preconditioner that ranks do without.
    model = nopg.NOPG(bandwidths=GIVEN, rtol=1e-10, final_rtol=1e-12, seed=seed)
    data = grid_dataset(13, 13)
    fitted = model.fit(data, BOTTOM, n_updates=5, progress=False, ranks=ranks)
    parameters = torch.cat([p.detach().reshape(-1) for p in fitted.policy.parameters()])
    return {
        "fit/parameters": parameters.numpy(),
        "fit/J": np.array([float(fitted.kernel.objective())]),
        "fit/value": fitted.value(data.observations[:5]),
    }


def refusal(ranks: Ranks) -> str:
    """The sentence for data that differ between ranks."""
    data = grid_dataset(6 + ranks.rank, 6)
    try:
        nopg.NOPG(bandwidths=GIVEN).fit(data, BOTTOM, 1, ranks=ranks)
    except ConfigError as error:
        return str(error)
    return "not refused"


def endless(ranks: Ranks, out: Path) -> None:
    """Updates without end, until this or another rank is lost."""
    marker = out / f"running-{ranks.rank}"
    nopg.NOPG(bandwidths=GIVEN, search_start=False).fit(
        grid_dataset(13, 13),
        BOTTOM,
        n_updates=10**9,
        callback=lambda model, update: marker.touch(),
        progress=False,
        ranks=ranks,
    )


def main() -> None:
    """Join, do what was asked, leave; errors in one sentence."""
    task, out, timeout = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(1)
    try:
        with joined_ranks(timeout=timeout) as ranks:
            if task == "endless":
                endless(ranks, out)
            answers = equations(ranks) | trained(ranks)
            np.savez(out / f"rank{ranks.rank}.npz", **answers)  # type: ignore[arg-type]
            (out / f"refusal{ranks.rank}.txt").write_text(refusal(ranks))
    except NopgError as error:
        sys.exit(f"rank stopped: {error}")


if __name__ == "__main__":
    main()
