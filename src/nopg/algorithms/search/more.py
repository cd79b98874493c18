"""Learning on from a policy with new data: `FittedPolicy.learn_more`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nopg.algorithms.search.learn import learn
from nopg.data.dataset import Dataset
from nopg.data.sampling import merge
from nopg.errors import ConfigError
from nopg.fitted.policy import LEARN, FittedPolicy

KEPT = ("gamma", "risk", "n_updates", "n_refining")
"""Settings of the earlier search that hold unless others are given."""


def learn_more(policy: FittedPolicy, data: Dataset, **settings: Any) -> FittedPolicy:
    """A new search in the data of `policy` and new ones, from that policy on.

    Args:
        policy: What `nopg.learn` found.
        data: New transitions of the same system.
        settings: Of `nopg.learn`; by default those of the earlier search.
    """
    if policy.algorithm != LEARN:
        raise ConfigError(
            "`learn_more` goes on with a policy of nopg.learn, this one is of "
            f"{policy.algorithm}; fit it anew to all data, see Dataset.merge."
        )
    earlier = policy.require_data()
    layout = earlier.history
    if layout is not None:
        d = layout.n_observed
        earlier = replace(
            earlier,
            observations=earlier.observations[:, :d],
            next_observations=earlier.next_observations[:, :d],
            observation_names=earlier.observation_names[:d],
            observation_space=policy.observation_space,
            history=None,
        )
    every = merge(earlier, data)
    if layout is not None:
        every = every.with_history(
            observations=layout.observations, actions=layout.actions
        )
    kind = str(policy.settings["policy"])
    given = {name: policy.settings[name] for name in KEPT if name in policy.settings}
    given |= {"policy": kind, "seed": policy.seed, "action_space": policy.action_space}
    if policy.models and policy.models[0].known_reward is not None:
        given["reward"] = policy.models[0].known_reward.function
    given["initial_states"] = policy.initial_states
    if layout is None:
        given["history"] = 0
    return learn(every, start=policy, **(given | settings))
