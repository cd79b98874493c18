"""Draws the pictures of the documentation: `python -m scripts.make_docs_pictures`.

Every number in them is computed here, with fixed seeds. What is printed is what the
pages quote.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
import torch

import nopg
from nopg.algorithms.search.learn import learn
from nopg.cli.swing_up import (
    BOTTOM,
    GAMMA,
    OPTIMUM,
    grid_dataset,
    swing_up,
)
from nopg.data.io.memory import from_table
from nopg.envs import pendulum_random
from nopg.kernels.leave_one_out import leave_one_out
from nopg.plots.curves import learning_curve
from nopg.plots.phase import phase_portraits, portrait
from nopg.plots.theme import ACCENT, INK, MUTED, WARM, figure, save
from nopg.randomness import Seed

FOLDER = Path(__file__).parents[1] / "docs" / "images"
HEAVY = 150_000
"""Bytes a picture may have."""


def cart() -> nopg.Dataset:
    """The log of the five-minute start: twelve runs of a cart, pushed at random."""
    rng = np.random.default_rng(0)
    rows = []
    for run in range(12):
        x, v = rng.uniform(-1, 1), 0.0
        for _ in range(40):
            u = rng.uniform(-1, 1)
            rows.append((run, x, v, u, -(x**2) - 0.1 * v**2 - 0.01 * u**2))
            v += 0.1 * u
            x += 0.1 * v
    columns = dict(
        zip(("run", "x", "v", "u", "r"), zip(*rows, strict=True), strict=True)
    )
    return from_table(
        columns, observations=["x", "v"], actions=["u"], reward="r", episode="run"
    )


def start() -> None:
    """The cart: learning curve, and the position it is driven from and to."""
    policy = nopg.NOPG(gamma=0.97).fit(cart(), n_updates=300, progress=False)
    history = policy.history
    assert history is not None
    learning_curve(history, FOLDER / "cart_curve.png")
    x, v, path = 0.8, 0.0, [0.8]
    for _ in range(100):
        u = float(policy.predict([x, v])[0][0])
        v += 0.1 * u
        x += 0.1 * v
        path.append(x)
    print(f"cart: J {history['objective'][0]:.2f} to {policy.kernel.objective()!r}")
    print(f"cart: from 0.8 to {path[50]:.3f} after 50 steps, {path[100]:.3f} after 100")
    with figure(figsize=(6.4, 2.6)) as (drawn, axes):
        axis = axes[0, 0]
        axis.plot(path, color=WARM)
        axis.axhline(0.0, color=MUTED, lw=0.8, ls=":")
        axis.set_title("The learned policy, started at x = 0.8 at rest")
        axis.set_xlabel("step")
        axis.set_ylabel("position x")
        save(drawn, FOLDER / "cart_path.png")


def rows() -> None:
    """Weights of the samples at one state, for two actions: a row of eps."""
    rng = np.random.default_rng(3)
    s, a = rng.uniform(-1, 1, (40, 1)), rng.uniform(-1, 1, (40, 1))
    data = nopg.Dataset(s, a, -(s[:, 0] ** 2), s + 0.2 * a, np.zeros(40, dtype=bool))
    with figure(columns=2, figsize=(8.4, 3.2)) as (drawn, axes):
        for axis, action in zip(axes[0], (-0.6, 0.6), strict=True):
            policy = _Constant(action)
            equation = nopg.BellmanEquation(
                data,
                policy,
                [[0.2]],
                gamma=0.9,
                bandwidths=nopg.Bandwidths([0.2], [0.3]),
            )
            weights = equation.responsibilities([[0.2]])[0].numpy()
            axis.scatter(s, a, s=12 + 2500 * weights, color=ACCENT, alpha=0.6, lw=0)
            axis.scatter(s, a, s=6, color=INK, lw=0)
            axis.plot(0.2, action, "x", color=WARM, ms=11, mew=3)
            axis.set_title(f"Who speaks for s = 0.2, a = {action}")
            axis.set_xlabel("state")
            axis.set_ylabel("action")
        save(drawn, FOLDER / "rows.png")


class _Constant(torch.nn.Module):
    """The same action everywhere."""

    def __init__(self, action: float) -> None:
        super().__init__()
        self.action = torch.nn.Parameter(torch.tensor([action], dtype=torch.float64))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """One action per row."""
        return self.action.expand(len(states), 1)


def bandwidths() -> None:
    """The pendulum's value with bandwidths a quarter, once and four times "auto"."""
    data = grid_dataset()
    auto = nopg.NOPG(gamma=GAMMA).prepare(data, BOTTOM)
    drawn = []
    for factor in (0.25, 1.0, 4.0):
        scaled = auto.bandwidths.scaled(state=factor)
        algorithm = nopg.NOPG(gamma=GAMMA, bandwidths=scaled)
        policy = algorithm.fit(data, BOTTOM, n_updates=300, progress=False)
        rewards = swing_up(policy).rewards
        true = float(rewards @ GAMMA ** np.arange(len(rewards)))
        print(
            f"bandwidths x {factor}: J {policy.kernel.objective()!r}, truly "
            f"{true:.0f}, undiscounted {rewards.sum():.0f}"
        )
        drawn.append(
            portrait(f"h x {factor:g}", policy.value, policy.kernel.visitation, size=61)
        )
    phase_portraits(drawn, FOLDER / "bandwidths.png")


def exploitation() -> None:
    """J rises above the best possible while the pendulum stays down."""
    data = nopg.Dataset(*pendulum_random(500, Seed(0).numpy("data")))
    policy = nopg.NOPG(gamma=GAMMA).fit(
        data,
        BOTTOM,
        n_updates=300,
        evaluators={"return on Pendulum-v1": lambda m: swing_up(m).total},
        evaluate_every=25,
        progress=False,
    )
    history = policy.history
    assert history is not None
    learning_curve(
        history,
        FOLDER / "exploitation.png",
        references={"optimum, about": OPTIMUM},
    )
    h = np.array(policy.bandwidths.state)
    distances = np.linalg.norm((data.observations - np.array(BOTTOM)) / h, axis=1)
    solved, measured = (
        history["objective"],
        history.evaluations("return on Pendulum-v1"),
    )
    print(f"500 random rows: J {solved[0]:.0f} to {policy.kernel.objective()!r}")
    print(f"500 random rows: measured {measured[1][0]:.0f} to {measured[1][-1]:.0f}")
    rewards = swing_up(policy).rewards
    true = float(rewards @ GAMMA ** np.arange(len(rewards)))
    print(f"500 random rows: true discounted return of that policy {true:.0f}")
    print(f"500 random rows: the start is {distances.min():.1f} bandwidths away")


def dimensions() -> None:
    """How much of (s', r) the kernels fail to predict, by dimension and sample size."""
    sizes, widths = (200, 1000, 5000), (1, 2, 4, 6, 8, 12)
    with figure(figsize=(6.4, 3.0)) as (drawn, axes):
        axis = axes[0, 0]
        for n, colour in zip(sizes, (MUTED, ACCENT, WARM), strict=True):
            errors = [_unpredicted(n, d) for d in widths]
            print(f"dimensions, n = {n}: " + " ".join(f"{e:.2f}" for e in errors))
            axis.plot(widths, errors, marker="o", color=colour, label=f"n = {n:,}")
        axis.set_title("Share of the variance of (s', r) that is not predicted")
        axis.set_xlabel("state dimensions")
        axis.set_ylim(0.0, 0.5)
        axis.legend()
        save(drawn, FOLDER / "dimensions.png")


def _unpredicted(n: int, d: int) -> float:
    """Leave-one-out error of a smooth system: d masses on a ring of soft springs."""
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-1, 1, (n, d)), rng.uniform(-1, 1, (n, 1))
    pull = np.tanh(2.0 * (np.roll(s, 1, axis=1) - s))
    s_next = s + 0.5 * pull + 0.5 * a
    targets = np.column_stack([s_next, -(s**2).mean(axis=1)])
    inputs = torch.tensor(np.column_stack([s, a]))
    largest = torch.tensor([20.0] * d + [1.0])
    return leave_one_out(inputs, torch.tensor(targets), rng, largest)[1]


def searches() -> None:
    """`nopg.learn` and `NOPG.fit` on the pendulum's grid: seconds and returns."""
    for side in (10, 15, 20, 30):
        data = grid_dataset(side, side)
        began = time.perf_counter()
        searched = learn(data, BOTTOM, progress=False)
        learned = time.perf_counter()
        fitted = nopg.NOPG(gamma=GAMMA).fit(data, BOTTOM, progress=False)
        ended = time.perf_counter()
        print(
            f"learn, n = {len(data)}: {learned - began:.0f} s, "
            f"{swing_up(searched).total:.0f}; fit: {ended - learned:.0f} s, "
            f"{swing_up(fitted).total:.0f}\n{searched.search}",
            flush=True,
        )


def shrink() -> None:
    """A palette of 256 colours where a picture is heavier than it should be."""
    from PIL import Image

    for path in sorted(FOLDER.glob("*.png")):
        if path.stat().st_size > HEAVY:
            whole = Image.open(path).convert("RGB")
            whole.quantize(256, kmeans=1).save(path, optimize=True)
        print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", nopg.NopgWarning)
    pictures = (start, rows, bandwidths, exploitation, dimensions, searches, shrink)
    for picture in pictures:
        picture()
