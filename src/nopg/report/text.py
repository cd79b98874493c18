"""Sentences and large numbers of the page, for a reader who knows the task only."""

from __future__ import annotations

import numpy as np

from nopg.data.validation import counted
from nopg.report.evidence import Evidence
from nopg.report.fragments import number

EVALUATORS = {
    "model": "learned models of the system",
    "kernel": "kernel regression on the logged rows",
}
"""Who predicts, by the name of the evaluator."""


def lede(evidence: Evidence) -> str:
    """What was learned, from what, in one sentence."""
    data, policy = evidence.data, evidence.policy
    names = ", ".join(data.action_names[:4])
    rows = counted(len(data), "logged transition")
    if data.episodes is not None:
        rows += f" in {counted(data.n_episodes, 'episode')}"
    by = "a search (nopg learn)" if policy.search is not None else policy.algorithm
    return (
        f"A policy that chooses {names}, learned from {rows} by {by}. No trial took "
        "part: every number below is predicted from the data, by "
        f"{EVALUATORS[evidence.estimate.by]}, unless it says measured."
    )


def tiles(evidence: Evidence) -> list[tuple[str, str, str]]:
    """The numbers to remember: name, number, what it means."""
    estimate = evidence.estimate
    low, high = number(float(estimate.low)), number(float(estimate.high))
    value = number(float(estimate.value))
    entries = [("Expected return", value, f"95 times of 100 between {low} and {high}")]
    logged = evidence.logged_returns()
    if logged is not None:
        lengths = evidence.description.episode_lengths
        steps = "" if lengths is None else f" of {lengths[1]} steps"
        best = f"per logged episode{steps}, {number(float(logged.max()))} at best"
        entries.append(("Earned in the data", number(float(logged.mean())), best))
    near = 1.0 - evidence.visited.beyond
    similar = "of the predicted steps: something similar was tried there"
    entries.append(("Near the data", f"{near:.0%}", similar))
    measured = evidence.evaluators()
    for name, (_, values) in list(measured.items())[:1]:
        name = f"{name[:1].upper()}{name[1:]}, measured"
        entries.append((name, number(values[-1]), "last policy"))
    if not measured and evidence.data.terminations.any():
        paths = evidence.paths
        ended = f"of the predicted paths within {paths.horizon} steps"
        entries.append(("Task over", f"{1.0 - paths.running[-1]:.0%}", ended))
    return entries


def of_training(evidence: Evidence) -> str:
    """How many updates, how long, why they ended."""
    history = evidence.history
    if not len(history):
        return ""
    seconds = number(history["seconds"][-1], 2)
    updates = counted(len(history), "update")
    return f" {updates} in {seconds} s; {history.stopped}."


def of_maps(n_axes: int) -> str:
    """What the maps show."""
    dots = "Dots are where the policy is predicted to be at the step of the slider."
    if n_axes <= 2:
        return dots
    return (
        "The state has more than two coordinates: choose two, the others are held; "
        f"visits are counted wherever the others are. {dots}"
    )


def of_paths(evidence: Evidence) -> str:
    """What the predicted paths are, and how many of them end."""
    paths = evidence.paths
    who = EVALUATORS[evidence.estimate.by]
    steps = f"the next {paths.horizon} steps from the initial states"
    if paths.is_path:
        first = f"{len(paths.states)} paths through {who}, {steps}."
    else:
        first = (
            f"Where the policy is after each of {steps}, predicted by {who}: "
            f"{len(paths.states)} states drawn at every step."
        )
    ended = np.nonzero(paths.running <= 0.5)[0]
    ends = f" Half of them have ended after {ended[0]} steps." if len(ended) else ""
    return f"{first} The band holds 80% of them, the line is their middle.{ends}"


def of_data(evidence: Evidence) -> str:
    """How many rows, how they ended, how they fill the space."""
    described = evidence.description
    lengths = described.episode_lengths
    rows = counted(described.n_transitions, "transition")
    if lengths is not None:
        spread = f"{lengths[0]} to {lengths[2]} steps (median {lengths[1]})"
        steps = f"{lengths[0]} steps" if lengths[0] == lengths[2] else spread
        rows += f" in {counted(described.n_episodes, 'episode')} of {steps}"
    return (
        f"{rows}. {described.n_terminations:,} of them ended the task, after "
        f"{described.n_truncations:,} only the recording stopped."
    )
