"""Sentences and large numbers of the page, for a reader who knows the task only."""

import numpy as np

from nopg.data.validation import counted
from nopg.evaluation.replay import Replay
from nopg.evaluation.verdict import THE_LOG, percent
from nopg.report.evidence import Evidence
from nopg.report.fragments import number

EVALUATORS = {
    "model": "learned models of the system",
    "kernel": "kernel regression on the logged rows",
}  # who predicts


def words(evidence: Evidence) -> dict[str, str]:
    """Texts of the page by the names of the template."""
    data, policy, verdict = evidence.data, evidence.policy, evidence.verdict
    rows = counted(len(data), "logged transition")
    if data.episodes is not None:
        rows += f" in {counted(data.n_episodes, 'episode')}"
    ended = np.nonzero(evidence.paths.running <= 0.5)[0]
    return {name: getattr(verdict, name) for name in ("level", "headline", "reason", "advice")} | {
        "chooses": ", ".join(data.action_names[:4]),
        "rows": rows,
        "by": "a search (nopg learn)" if policy.search is not None else policy.algorithm,
        "evaluator": EVALUATORS[evidence.estimate.by],
        "value": number(float(evidence.estimate.value)),
        "interval": interval_of(evidence),
        "earned": of_returns(evidence),
        "gamma": number(policy.gamma),
        "far": f"{1.0 / (1.0 - policy.gamma):.0f}",
        "paths": of_paths(evidence),
        "ended": f" Half of them have ended after {ended[0]} steps." if len(ended) else "",
        "replay": of_replay(evidence.grounds.replay),
        "next": of_next(evidence),
        "learning": of_training(evidence),
    }


def interval_of(evidence: Evidence) -> str:
    """Where the expected return lies, in words."""
    if not (estimate := evidence.estimate).known:
        return f"unknown: {estimate.reason}"
    low, high = number(float(estimate.low)), number(float(estimate.high))
    return f"expected return, 95 times of 100 between {low} and {high}"


def compared(evidence: Evidence) -> list[tuple[str, float, float, float]]:
    """Name, lower end, value and upper end of both returns, where models compare."""
    found = evidence.grounds.comparison
    if not (found.known and evidence.is_by_models):
        return []
    # All that is uncertain about the difference is drawn at the policy.
    other, name = found.other, f"{found.against[:1].upper()}{found.against[1:]}"
    ends = (other + found.low, other + found.difference, other + found.high)
    return [("This policy", *ends), (name, other, other, other)]


def of_returns(evidence: Evidence) -> str:
    """What is compared, and what came of it."""
    found, alike = evidence.grounds.comparison, "From the same starts"
    if found.against == THE_LOG:
        starts = counted(found.n_starts, "recorded episode")
        alike = f"From the first states of {starts} and for as long as each lasted"
    if not found.known:
        return f"{alike}, nobody knows which earns more: {found.reason}"
    return (
        f"{alike}, its return differs from that of {found.against} by {found.difference:+.3g}, "
        f"between {found.low:+.3g} and {found.high:+.3g}, by learned models: worse "
        f"with a probability of {percent(found.probability_worse)}."
    )


def of_replay(replay: Replay) -> str:
    """What was replayed, and what came of it."""
    what = {
        "episodes": "Some recorded episodes were held out while the models were fitted "
        "once more, and their actions replayed in them from their own states.",
        "blocks": "The end of the recording was held out while the models were fitted "
        "once more, and its actions replayed in them.",
        "pairs": "Rows have no order here, so that only single steps could be held out "
        "and predicted: nothing is known of longer predictions.",
    }[replay.kind]
    fine = "What happened lies within the bands about as often as said."
    return f"{what} {replay.reason or fine}"


def of_next(evidence: Evidence) -> str:
    """Where the data run out, and what recording there would bring."""
    untried, found = evidence.grounds.untried, evidence.suggestion
    mark = "the nearest logged row is farther than rows are from each other"
    if evidence.is_by_models:
        mark = "more than half of a prediction is a guess"
    first = f"{untried:.0%} of the policy's steps are untried ({mark})."
    if not len(found):
        return f"{first} The models know the system there: nothing to record."
    return (
        f"{first} Recording these {len(found)} steps, best first, would leave "
        f"{found.remaining[-1]:.0%} of what lack of data makes uncertain about its "
        "return. policy.suggest(n).save(file) writes as many as you can record."
    )


def of_training(evidence: Evidence) -> str:
    """How many updates, how long, why they ended."""
    if not len(history := evidence.history):
        return ""
    seconds = number(history["seconds"][-1], 2)
    return f" {counted(len(history), 'update')} in {seconds} s; {history.stopped}."


def of_paths(evidence: Evidence) -> str:
    """What the predicted paths are."""
    paths, who = evidence.paths, EVALUATORS[evidence.estimate.by]
    steps = f"the next {paths.horizon} steps from the initial states"
    if paths.is_path:
        return f"{len(paths.states)} paths through {who}, {steps}."
    return (
        f"Where the policy is after each of {steps}, predicted by {who}: "
        f"{len(paths.states)} states drawn at every step."
    )
