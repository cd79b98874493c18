"""`nopg.load`: a saved policy, as it was."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nopg.bellman.problem import EstimatorConfig
from nopg.data.dataset import Dataset
from nopg.data.files import reading
from nopg.data.history import HistoryLayout
from nopg.data.io.metadata import space_from_json
from nopg.errors import ConfigError, DataError, PolicyFileError
from nopg.fitted.history import SearchResult
from nopg.fitted.policy import FittedPolicy
from nopg.fitted.storage import bandwidths_from_json, read_policy_file, stored_data
from nopg.kernels.bandwidths import Bandwidths
from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy, as_policy
from nopg.randomness import Seed


def load(path: str | Path, policy: nn.Module | None = None, device: str = "cpu") -> FittedPolicy:
    """Read a policy written by `FittedPolicy.save`.

    Args:
        path: The file.
        policy: For modules of your own: one of the same architecture, whose parameters it replaces.
        device: Where the policy shall live.

    Raises:
        PolicyFileError: If the file is missing, damaged, foreign or of another format.

    Example:
        >>> policy.save("cart.nopg")
        >>> again = nopg.load("cart.nopg")
        >>> bool(again.predict([0.1, 0.0])[0] == policy.predict([0.1, 0.0])[0])
        True
    """
    metadata, tensors = read_policy_file(Path(path))
    if metadata.get("policy") is None and policy is None:
        raise PolicyFileError(
            f"`{path}` was trained on a module of your own, whose code no file "
            "holds; pass it: nopg.load(path, policy=YourModule())."
        )
    with reading(path, "a complete nopg policy", "save it again", PolicyFileError):
        try:
            return _fitted(metadata, tensors, policy, device)
        except (ConfigError, DataError) as error:  # of a part that makes no sense
            raise ValueError(error) from None


def _fitted(
    metadata: Mapping[str, Any], tensors: Mapping[str, Tensor], given: nn.Module | None, device: str
) -> FittedPolicy:
    stored = metadata["policy"]
    spec = None if stored is None else PolicySpec(**_complete(PolicySpec, stored))
    if (space := space_from_json(metadata["action_space"])) is None:
        raise PolicyFileError("A policy must name its action space, none was found; save it again.")
    data, search = stored_data(metadata, tensors), metadata["search"]
    starts, names = tensors.get("initial_states"), metadata["observation_names"]
    widths = metadata["bandwidths"]
    bandwidths = None if widths is None else bandwidths_from_json(widths)
    _require_consistent(spec, space, data, bandwidths)
    if (memory := HistoryLayout.from_json(metadata.get("memory"))) is not None:
        d_a = space.n if memory.is_discrete else len(space.low)  # type: ignore[attr-defined]
        memory.require_columns(memory.width if spec is None else spec.n_states, d_a)
    return FittedPolicy(
        policy=_policy(spec, given, tensors, device),
        action_space=space,
        estimator=EstimatorConfig(**_complete(EstimatorConfig, metadata["estimator"])),
        seed=int(metadata["seed"]),
        algorithm=str(metadata["algorithm"]),
        settings=dict(metadata["settings"]) | {"device": device},
        bandwidth_rule="auto" if bandwidths is None else bandwidths,
        spec=spec,
        data=data,
        initial_states=None if starts is None else np.asarray(starts.numpy()),
        observation_names=None if names is None else tuple(map(str, names)),
        observation_space=space_from_json(metadata["observation_space"]),
        search=None if search is None else SearchResult.from_json(search),
        memory=memory,
    )


def _require_consistent(
    spec: PolicySpec | None, space: Any, data: Dataset | None, bandwidths: Bandwidths | None
) -> None:
    """Refuse parts that contradict each other: each alone would load."""
    is_discrete = hasattr(space, "n")
    if spec is not None:
        n_outputs = space.n if is_discrete else len(space.low)
        if (spec.kind == "discrete") != is_discrete or spec.n_outputs != n_outputs:
            raise ValueError(f"a {spec.kind} policy of {spec.n_outputs} for {space}")
    if not is_discrete and not np.isfinite([space.low, space.high]).all():
        raise ValueError(f"the action space {space} is not bounded")
    if data is None:
        return
    d_s, d_a = data.observations.shape[1], 1 if is_discrete else len(space.low)
    n_actions = d_a if data.is_discrete else data.actions.shape[1]
    if data.is_discrete != is_discrete or n_actions != d_a:
        raise ValueError(f"actions of the data do not lie in {space}")
    if spec is not None and spec.n_states != d_s:
        raise ValueError(f"a policy of {spec.n_states} states for data of {d_s}")
    if bandwidths is not None:
        bandwidths.require_widths(d_s, d_a)


def _complete(kind: type[Any], stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of a dataclass, every one: what is missing is not made up."""
    if missing := {field.name for field in fields(kind)} - set(stored):
        raise PolicyFileError(f"A policy file lacks {', '.join(sorted(missing))}; save it again.")
    return stored


def _policy(
    spec: PolicySpec | None, module: nn.Module | None, tensors: Mapping[str, Tensor], device: str
) -> Policy:
    weights = {k.removeprefix("policy/"): v for k, v in tensors.items() if k.startswith("policy/")}
    if module is not None:
        policy = as_policy(module)
    else:
        assert spec is not None  # refused before
        widths = (spec.n_states, *(spec.hidden or ()), spec.n_outputs)
        n_declared = sum(math.prod(pair) for pair in itertools.pairwise(widths))
        if n_declared > (n_stored := sum(v.numel() for v in weights.values())):
            raise PolicyFileError(  # before that many are reserved
                f"A policy of widths {widths} must have {n_declared:,} weights, the "
                f"file holds {n_stored:,}; save it again."
            )
        policy = spec.build(Seed(0).torch("policy-init"))
    floats = [v.dtype for v in weights.values() if v.is_floating_point()]
    if not all(bool(torch.isfinite(v).all()) for v in weights.values()):
        raise PolicyFileError("A policy must have finite parameters, some are not; train it anew.")
    # The dtype first: float64 numbers copied into float32 parameters lose half.
    policy.to(device=device, dtype=floats[0] if floats else torch.float64)
    policy.load_state_dict(weights)
    return policy
