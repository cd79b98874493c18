"""Draws the pictures of the documentation: `python -m scripts.make_docs_pictures`.

Every number in them is computed here, with fixed seeds. What is printed is what the
pages quote.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from reproduction.pictures.curves import learning_curve
from reproduction.pictures.phase import phase_portraits, portrait
from reproduction.pictures.theme import ACCENT, INK, MUTED, WARM, figure, save
from reproduction.tasks.random_agents import pendulum_random

import nopg
from nopg.cli.swing_up import BOTTOM, GAMMA, OPTIMUM, grid_dataset, swing_up
from nopg.kernels.bandwidths import leave_one_out
from nopg.randomness import Seed

FOLDER = Path(__file__).parents[1] / "docs" / "images"
HEAVY = 150_000
"""Bytes a picture may have."""


def start() -> None:
    """A morning of the heated room: the thermostat and the policy of the page."""
    page = (FOLDER.parent / "start.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for code in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S):
            exec(code, names)
    with figure(figsize=(6.4, 2.8)) as (drawn, axes):
        axis = axes[0, 0]
        for name, colour in (("thermostat", MUTED), ("learned", WARM)):
            room, heater, power, path = 15.0, 15.0, 0.0, [15.0]
            for _ in range(60):
                power = names[name](room, heater, power)
                room, heater = names["plant"](room, heater, power)
                path.append(room)
            axis.plot(path, color=colour, label=name)
        axis.axhline(21.0, color=MUTED, lw=0.8, ls=":")
        axis.set_title("A morning of 15 degrees")
        axis.set_xlabel("minute")
        axis.set_ylabel("room, degrees")
        axis.legend()
        save(drawn, FOLDER / "room_path.png")


def rows() -> None:
    """Weights of the samples at one state, for two actions: a row of eps."""
    rng = np.random.default_rng(3)
    s, a = rng.uniform(-1, 1, (40, 1)), rng.uniform(-1, 1, (40, 1))
    data = nopg.Dataset(s, a, -(s[:, 0] ** 2), s + 0.2 * a, np.zeros(40, dtype=bool))
    with figure(columns=2, figsize=(8.4, 3.2)) as (drawn, axes):
        for axis, action in zip(axes[0], (-0.6, 0.6), strict=True):
            policy = _Constant(action)
            equation = nopg.BellmanEquation(
                data, policy, [[0.2]], gamma=0.9, bandwidths=nopg.Bandwidths([0.2], [0.3])
            )
            weights = equation.responsibilities([[0.2]])[0].numpy()
            axis.scatter(s, a, s=12 + 2500 * weights, color=ACCENT, alpha=0.6, lw=0)
            axis.scatter(s, a, s=6, color=INK, lw=0)
            axis.plot(0.2, action, "x", color=WARM, ms=11, mew=3)
            axis.set_title(f"Who speaks for s = 0.2, a = {action}")
            axis.set_xlabel("state")
            axis.set_ylabel("action")
        save(drawn, FOLDER / "rows.png")


def matched() -> None:
    """A system that stands still, seen through both kinds of rows: r = -|s|, s' = s."""
    rng = np.random.default_rng(0)
    s = rng.exponential(0.5, (400, 1)) - 1.0
    s = s[s[:, 0] < 1.0]
    a = rng.uniform(-1, 1, s.shape)
    data = nopg.Dataset(s, a, -np.abs(s[:, 0]), s, np.zeros(len(s), dtype=bool))
    places = np.linspace(-0.95, 0.8, 60)[:, None]
    with figure(columns=2, figsize=(8.4, 3.2)) as (drawn, axes):
        left, right = axes[0]
        for rows, name, colour in (
            ("nadaraya-watson", "Nadaraya-Watson", MUTED),
            ("matched", "matched", WARM),
        ):
            equation = nopg.BellmanEquation(
                data,
                _Constant(0.0),
                [[0.0]],
                gamma=0.9,
                bandwidths=nopg.Bandwidths([0.15], [0.5]),
                rows=rows,
            )
            means = equation.responsibilities(places).numpy() @ s
            values = equation.value(places).numpy()
            left.plot(places, means - places, color=colour, label=name)
            right.plot(places, values, color=colour, label=name)
            away = float(np.abs(means - places).mean())
            wrong = float(np.abs(values + 10.0 * np.abs(places[:, 0])).mean())
            print(f"{name} rows: mean {away:.4f} off its query, V {wrong:.3f} off")
        right.plot(places, -10.0 * np.abs(places), color=INK, ls=":", label="truth")
        left.set_title("Mean of the row less its query")
        right.set_title("V of standing still, r = -|s|")
        for axis in (left, right):
            axis.set_xlabel("state; samples thin out to the right")
            axis.legend()
        save(drawn, FOLDER / "matched_rows.png")


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
    auto = nopg.NOPG(gamma=GAMMA).prepare(data, BOTTOM).bandwidths
    drawn = []
    for factor in (0.25, 1.0, 4.0):
        scaled = nopg.NOPG(gamma=GAMMA, bandwidths=auto.scaled(state=factor))
        policy = scaled.fit(data, BOTTOM, n_updates=300, progress=False)
        rewards = swing_up(policy).rewards
        true = float(rewards @ GAMMA ** np.arange(len(rewards)))
        print(
            f"bandwidths x {factor}: J {policy.kernel.objective()!r}, "
            f"truly {true:.0f}, undiscounted {rewards.sum():.0f}"
        )
        visitation = policy.kernel.visitation
        drawn.append(portrait(f"h x {factor:g}", policy.value, visitation, size=61))
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
    learning_curve(history, FOLDER / "exploitation.png", references={"optimum, about": OPTIMUM})
    h = np.array(policy.bandwidths.state)
    distances = np.linalg.norm((data.observations - np.array(BOTTOM)) / h, axis=1)
    solved, measured = (history["objective"], history.evaluations("return on Pendulum-v1"))
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
    spring = np.tanh(2.0 * (np.roll(s, 1, axis=1) - s))
    s_next = s + 0.5 * spring + 0.5 * a
    targets = np.column_stack([s_next, -(s**2).mean(axis=1)])
    inputs = torch.tensor(np.column_stack([s, a]))
    largest = torch.tensor([20.0] * d + [1.0])
    return leave_one_out(inputs, torch.tensor(targets), rng, largest)[1]


def searches() -> None:
    """`nopg.learn` and `NOPG` on the pendulum's grid: seconds and returns."""
    for side in (10, 15, 20, 30):
        data = grid_dataset(side, side)
        began = time.perf_counter()
        searched = nopg.learn(data, BOTTOM, progress=False)
        learned = time.perf_counter()
        fitted = nopg.NOPG(gamma=GAMMA).fit(data, BOTTOM, progress=False)
        ended = time.perf_counter()
        print(
            f"learn, n = {len(data)}: {learned - began:.0f} s, "
            f"{swing_up(searched).total:.0f}; NOPG: {ended - learned:.0f} s, "
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
    pictures = (start, rows, matched, bandwidths, exploitation, dimensions, searches, shrink)
    for picture in pictures:
        picture()
