"""Learning on from a policy with new data: `FittedPolicy.learn_more`."""

from dataclasses import replace
from typing import Any

from nopg.algorithms.search.learn import learn
from nopg.algorithms.search.memory import AUTO
from nopg.data.dataset import Dataset
from nopg.data.sampling import merge
from nopg.errors import ConfigError, DataError
from nopg.fitted.policy import LEARN, FittedPolicy


def learn_more(policy: FittedPolicy, data: Dataset, **settings: Any) -> FittedPolicy:
    """A new search, from a policy on, in its data and new ones together."""
    if policy.algorithm != LEARN:
        raise ConfigError(
            "`learn_more` goes on with a policy of nopg.learn, this one is of "
            f"{policy.algorithm}; fit it anew to all data, see nopg.data.merge."
        )
    if not isinstance(data, Dataset):
        raise DataError(
            "New data must be a nopg.Dataset with the columns of the policy, got a "
            f"{type(data).__name__}; load them with Dataset.load."
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
        every = every.with_history(observations=layout.observations, actions=layout.actions)
    given = dict(policy.settings) | {"action_space": policy.action_space}
    given["history"] = AUTO if layout is not None else 0  # the columns are there
    if policy.models and policy.models[0].known_reward is not None:
        given["reward"] = policy.models[0].known_reward.function
    given["initial_states"] = policy.initial_states
    return learn(every, start=policy, **(given | settings))
