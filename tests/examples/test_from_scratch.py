"""The one-file version and the library say the same, and both learn."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from reproduction.envs.pendulum import pendulum_grid

import nopg
from examples import nopg_from_scratch as scratch
from tests.docs.pages import ROOT

GAMMA = 0.9
SCRIPT = ROOT / "examples" / "nopg_from_scratch.py"


def small_log(seed: int, n: int = 40) -> scratch.Log:
    """Random transitions, some of which end the task."""
    rng = np.random.default_rng(seed)
    s = torch.tensor(rng.normal(size=(n, 3)))
    ends = torch.tensor(rng.random(n) < 0.2)
    assert 0 < ends.sum() < n
    return scratch.Log(
        s=s,
        a=torch.tensor(rng.uniform(-2, 2, (n, 1))),
        r=torch.tensor(rng.normal(size=n)),
        s_next=s + torch.tensor(0.4 * rng.normal(size=(n, 3))),
        ends=ends,
        h_s=torch.tensor([0.5, 0.6, 0.7]).double(),
        h_a=torch.tensor([0.8]).double(),
    )


@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_the_library_computes(seed: int) -> None:
    log, policy = small_log(seed), scratch.Policy(seed)
    starts = torch.tensor(np.random.default_rng(seed + 9).normal(size=(4, 3)))
    found = scratch.evaluate(policy, log, starts, GAMMA)
    slopes = scratch.gradient(found, policy, GAMMA)

    data = nopg.Dataset(
        log.s.numpy(), log.a.numpy(), log.r.numpy(), log.s_next.numpy(), log.ends.numpy()
    )
    bandwidths = nopg.Bandwidths(log.h_s.tolist(), log.h_a.tolist())
    library = nopg.BellmanEquation(
        data, policy, starts, gamma=GAMMA, bandwidths=bandwidths, rtol=1e-14
    )

    def same(ours: torch.Tensor, theirs: torch.Tensor) -> None:
        torch.testing.assert_close(ours.detach(), theirs, rtol=1e-10, atol=1e-10)

    assert float(found.J) == pytest.approx(float(library.objective), rel=1e-10)
    same(found.q, library.q)
    same(found.mu, library.mu)
    same(found.P, library.transition_matrix())
    same(scratch.responsibilities(starts, policy, log), library.responsibilities(starts))
    same(torch.cat([slope.reshape(-1) for slope in slopes]), library.gradient())


def test_its_grid_is_the_librarys() -> None:
    ours, theirs = scratch.grid(5, 6), pendulum_grid(5, 6)
    for name, column in (
        ("s", theirs.observations),
        ("a", theirs.actions),
        ("r", theirs.rewards),
        ("s_next", theirs.next_observations),
    ):
        np.testing.assert_allclose(getattr(ours, name), column, rtol=0, atol=1e-14)


def test_it_imports_numpy_and_torch_only() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    names = [
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    ]
    others = set(names) - set(sys.stdlib_module_names)
    assert others == {"numpy", "torch"}


@pytest.mark.slow
def test_it_swings_up() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=True)
    found = re.search(r"^return (-\d+)", done.stdout, re.M)
    assert found is not None, done.stdout
    assert int(found[1]) > -500  # the paper's mean at this size is -594
