"""A fresh policy for a data set: the space of its actions, its family, its limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import nopg
from nopg.algorithms.build import action_space_of, as_dataset, build_policy
from nopg.algorithms.nopg.config import NOPGConfig
from nopg.errors import ConfigError
from nopg.policies.families import Policy
from tests.test_house import swinging


def logged(actions: Any = None, **extra: Any) -> nopg.Dataset:
    rng = np.random.default_rng(0)
    states = rng.normal([5.0, -2.0], [3.0, 0.5], size=(40, 2))
    taken = rng.uniform(-1.0, 3.0, size=(40, 1)) if actions is None else actions
    return nopg.Dataset(states, taken, states[:, 0], states, np.zeros(40), **extra)


def built(data: nopg.Dataset, **settings: Any) -> Policy:
    config = NOPGConfig.of(**settings)
    return build_policy(config, data, action_space_of(data, None))[0]


def test_the_space_is_the_users_else_the_datas_else_the_range() -> None:
    wide, wider = (Box(-x, x, (1,), dtype=np.float64) for x in (4.0, 9.0))
    data = logged(action_space=wide)
    assert action_space_of(data, wider) is wider
    assert action_space_of(data, None) == wide
    found = action_space_of(logged(), None)
    assert isinstance(found, Box)
    assert found.low[0] == logged().actions.min()
    assert found.high[0] == logged().actions.max()
    labels = np.arange(40) % 3
    assert action_space_of(logged(labels), None) == Discrete(3)


def test_actions_stay_inside_the_space_however_far_the_state() -> None:
    data = logged()
    far = torch.tensor([[1e6, -1e6], [-1e6, 1e6]], dtype=torch.float64)
    actions = built(data).act(far)
    assert float(actions.detach().min()) >= data.actions.min()
    assert float(actions.detach().max()) <= data.actions.max()


def test_states_are_standardised_by_the_data_unless_told_otherwise() -> None:
    data = logged()
    standardise = built(data).standardise
    scaled = standardise(torch.tensor(data.observations))  # type: ignore[operator]
    torch.testing.assert_close(
        scaled.mean(dim=0), torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-12
    )
    assert float(scaled.std(dim=0, correction=0).sub(1.0).abs().max()) < 1e-12
    assert built(data, standardise=False).standardise is None


def test_a_label_nobody_chose_has_a_probability() -> None:
    data = logged(np.arange(40) % 2, action_space=Discrete(3))
    (probabilities,) = built(data, policy="discrete").outputs(torch.tensor(data.observations))
    assert probabilities.shape == (40, 3)


def test_the_same_seed_builds_the_same_policy() -> None:
    first, second, other = (built(logged(), seed=seed) for seed in (1, 1, 2))
    weights = [torch.cat([p.flatten() for p in m.parameters()]) for m in
               (first, second, other)]  # fmt: skip
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_module_of_ones_own_is_taken_as_it_is() -> None:
    data, module = logged(), torch.nn.Linear(2, 1)
    config = NOPGConfig.of(policy="custom")
    policy, spec = build_policy(config, data, action_space_of(data, None), module)
    assert spec is None
    assert next(policy.parameters()) is module.weight
    assert module.weight.dtype == torch.float64


@pytest.mark.parametrize(
    ("data", "settings", "sentence"),
    [
        (logged(np.arange(40) % 2), {}, 'policy="discrete"'),
        (logged(), {"policy": "discrete"}, "astype"),
        (
            logged(),
            {"policy": "stochastic", "max_std": (1.0, 1.0)},
            "must be one number per action",
        ),
    ],
)
def test_what_does_not_fit_is_refused(data: nopg.Dataset, settings: Any, sentence: str) -> None:
    with pytest.raises(nopg.ConfigError, match=sentence):
        built(data, **settings)


def test_a_data_frame_is_learned_from_by_its_names() -> None:
    data = swinging(60)
    table = {
        "x": data.observations[:, 0],
        "v": data.observations[:, 1],
        "next_x": data.next_observations[:, 0],
        "next_v": data.next_observations[:, 1],
        "u": data.actions[:, 0],
        "reward": data.rewards,
    }
    algorithm = nopg.NOPG(hidden=(4,), search_start=False, seed=3)
    starts = data.observations[:1]
    expected = algorithm.fit(data, starts, n_updates=2, progress=False)
    found = algorithm.fit(table, starts, n_updates=2, progress=False)  # type: ignore[arg-type]
    asked = data.observations[:5]
    assert (found.predict(asked)[0] == expected.predict(asked)[0]).all()
    for wrong in ("log.csv", 3, [1, 2]):
        with pytest.raises(ConfigError, match="from_table"):
            as_dataset(wrong)
