"""Several policies over one data set: seeds or restarts, one set of neighbour lists."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tqdm.auto import tqdm

from nopg.algorithms.nopg.ascent import ascend_together
from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.nopg.training import keep_better
from nopg.data.dataset import Dataset
from nopg.errors import ConfigError
from nopg.fitted.history import History
from nopg.fitted.policy import FittedPolicy
from nopg.randomness import Seed


def fit_batch(
    models: Sequence[NOPG],
    data: Dataset,
    initial_states: Any = None,
    n_updates: int | None = None,
    *,
    progress: bool = True,
) -> list[FittedPolicy]:
    """Train several models that differ in their seeds alone, as one job.

    Neighbours are searched and bandwidths chosen once, by the first model. On a GPU the policies
    ascend side by side in the same launches, far cheaper than one after the other; on the CPU they
    take turns. Starts are searched one by one on the CPU, unless `search_start=False`. Each ends
    where it would have ended by itself with the first model's bandwidths and lists.

    Args:
        models: Models of one configuration, up to the seed.
        data: Logged transitions.
        initial_states: Where the task starts, (B, d_s).
        n_updates: Updates of each policy, as in `NOPG.fit`.
        progress: Show a bar with the best J.

    Returns:
        One fitted policy per model, each with its history.

    Raises:
        ConfigError: If the models differ in more than their seeds.
    """
    if not models:
        raise ConfigError("There must be at least one model to train, got none.")
    first = models[0]
    for i, model in enumerate(models):
        if replace(model.config, seed=0) != replace(first.config, seed=0):
            raise ConfigError(
                "Models trained together must differ in their seeds alone, model "
                f"{i} has other settings than model 0; train it by itself."
            )
    policies = [first.prepare(data, initial_states)]
    policies += [model.prepare_like(first) for model in models[1:]]
    n_updates = first.length(n_updates)
    for model in models:
        model.find_start(n_updates, progress=progress)
    begun = [copy.deepcopy(policy.policy) for policy in policies]
    histories = [History() for _ in models]
    bar = tqdm(total=n_updates, disable=not progress, unit="update", desc="NOPG")
    together = ascend_together(
        first.training(n_updates).problem,
        [policy.policy for policy in policies],
        first.config,
        n_updates,
        [Seed(m.config.seed).torch("policy-samples", m.config.device) for m in models],
    )
    for updates in together:
        for history, update in zip(histories, updates, strict=True):
            history.updates.append(update)
        bar.set_postfix_str(f"best J={max(u.objective for u in updates):.4g}", refresh=False)
        bar.update()
    bar.close()
    for i, policy in enumerate(policies):
        policy.history = histories[i]
        policy.policy_changed()
        keep_better(policy, begun[i], first.ground)
    return policies
