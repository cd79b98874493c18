"""Sentences and large numbers of the page, in words a person would use."""

from __future__ import annotations

import numpy as np

from nopg.data.validation import counted
from nopg.evaluation.intervals import Estimate
from nopg.report.evidence import Evidence
from nopg.report.fragments import number
from nopg.report.payload import Drawing
from nopg.report.read import Run
from nopg.report.support import REACH


def lede(run: Run) -> str:
    """What was learned, from what, in one sentence."""
    data, kind = run.data, run.model.config.policy
    names = ", ".join(data.action_names[:4])
    rows = f"{counted(len(data), 'logged transition')}"
    if data.episodes is not None:
        rows += f" in {counted(data.n_episodes, 'episode')}"
    article = "A" if kind != "custom" else "Your own"
    word = "module" if kind == "custom" else f"{kind} policy"
    return (
        f"{article} {word} for {names}, learned from {rows} alone: no simulator "
        "and no trial took part."
    )


def tiles(evidence: Evidence) -> list[tuple[str, str, str]]:
    """The four numbers to remember: name, number, what it means."""
    run, objective = evidence.run, evidence.objective
    gamma = run.model.config.estimator.gamma
    certain = f"numerically exact to {number(objective.certificate, 1)}"
    if evidence.interval is not None:
        low, high = (number(bound) for bound in evidence.interval)
        certain = f"between {low} and {high}, by the data"
    entries = [("Estimated return J", number(float(objective)), certain)]
    curve = run.column("objective")
    if evidence.foretold is not None:
        entries[0] = ("Return J by the kernels", *entries[0][1:])
        entries.insert(0, _by_the_models(evidence.foretold))
    elif len(curve) > 1:
        gain = float(objective) - curve[0]
        sign = "+" if gain > 0 else ""
        entries.append(
            (
                "Gained by learning",
                f"{sign}{number(gain, 3)}",
                f"from {number(curve[0])} before the first update",
            )
        )
    else:
        a_step = (1.0 - gamma) * float(objective)
        entries.append(("Reward a step", number(a_step), "on average"))
    support = evidence.support
    entries.append(
        (
            "Visits near data",
            f"{1.0 - support.beyond:.0%}",
            f"within {REACH:g} bandwidths of a sample",
        )
    )
    measured = run.evaluations()
    for name, (_, values) in list(measured.items())[:1]:
        name = f"{name[:1].upper()}{name[1:]}, measured"
        entries.append((name, number(values[-1]), "last policy"))
    if not measured:
        ends = int(evidence.paths.is_over.sum())
        entries.append(
            (
                "Predicted to end",
                f"{ends} of {len(evidence.paths.ends)}",
                f"paths within {evidence.paths.horizon} steps",
            )
        )
    return entries


def _by_the_models(foretold: Estimate) -> tuple[str, str, str]:
    numbers = foretold.value, foretold.low, foretold.high
    value, low, high = (number(float(x[0])) for x in numbers)
    return "Return J by the models", value, f"between {low} and {high}"


def of_training(run: Run) -> str:
    """How many updates, how long, why they ended."""
    seconds = [s for s in run.column("seconds") if s == s]
    words = f" {counted(len(run.updates), 'update')}"
    if seconds:
        words += f" in {number(seconds[-1], 2)} s"
    return f"{words}; {run.stopped or 'finished'}."


def of_maps(drawing: Drawing) -> str:
    """What the maps show."""
    if len(drawing.axes) == 1:
        return "Value, visits and action along the state."
    if len(drawing.axes) == 2:
        return "Value, visits and action over the plane of states."
    return (
        "Slices of a state with more than two coordinates: choose two, the others are "
        "held."
    )


def of_paths(evidence: Evidence) -> str:
    """What the predicted paths are, and how many of them end."""
    paths = evidence.paths
    over = int(paths.is_over.sum())
    ends = ""
    if over:
        middle = int(np.median(paths.ends[paths.is_over]))
        ends = (
            f" {over} of them end in a terminal sample, in the median after {middle}."
        )
    return (
        f"{len(paths.ends)} paths drawn from the kernel model itself, {paths.horizon} "
        "steps from the initial states: each step is a transition of the data, the "
        f"next one that of a sample nearby.{ends} A real system moves smoothly; where "
        "these lines scatter, the model is unsure."
    )


def of_data(evidence: Evidence) -> str:
    """How many rows, how they ended, how they fill the space."""
    described = evidence.description
    lengths = described.episode_lengths
    words = f"{counted(described.n_transitions, 'transition')}"
    if lengths is not None:
        words += (
            f" in {counted(described.n_episodes, 'episode')} of {lengths[0]} to "
            f"{lengths[2]} steps (median {lengths[1]})"
        )
    return (
        f"{words}; {described.n_terminations:,} ended the task, "
        f"{described.n_truncations:,} were cut. Data fill {described.coverage:.0%} of "
        "the cells they could."
    )


def of_support() -> str:
    """What the shares and histograms of the support count."""
    return (
        "Every step the model predicts is asked of the data at the action the policy "
        "takes. Shares are of the predicted visits, sooner ones counting more. Beyond "
        f"{REACH:g} bandwidths a kernel has faded, and the model repeats what happened "
        "far away."
    )
