"""A model in one file: safetensors for numbers, JSON for words, no pickle.

The reader trusts nothing: the header is size-limited, every field is checked, and
a file can hold numbers and names only, never code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import torch
from torch import Tensor, nn

from nopg.algorithms.nopg.config import NOPGConfig
from nopg.algorithms.nopg.setup import Setup, lay_out
from nopg.bellman.samples import Samples, initial_state_tensor
from nopg.data.dataset import Dataset
from nopg.data.files import write_atomically
from nopg.data.spaces import space_from_json, space_to_json
from nopg.data.transitions import ARRAYS
from nopg.errors import PolicyFileError
from nopg.kernels.bandwidths import Bandwidths
from nopg.policies.build import PolicySpec
from nopg.policies.checked import as_policy
from nopg.randomness import Seed

if TYPE_CHECKING:
    from nopg.algorithms.nopg.nopg import NOPG

FORMAT = 1


def save_model(model: NOPG, path: Path, *, include_data: bool) -> None:
    """Write policy, settings, bandwidths, spaces and, if asked, the data."""
    from safetensors.torch import save

    setup = model.setup
    about = {
        "format": FORMAT,
        "config": model.config.flat(),
        "policy": None if setup.spec is None else setup.spec.to_json(),
        "bandwidths": {
            name: [repr(h) for h in getattr(setup.bandwidths, name)]
            for name in ("state", "action", "next_state")
        },
        "action_space": space_to_json(setup.action_space),
        "search": None if model.search is None else model.search.to_json(),
    }
    parameters = setup.policy.state_dict().items()
    tensors = {f"policy/{k}": v.detach().cpu().contiguous() for k, v in parameters}
    if include_data and setup.data is not None and setup.initial_states is not None:
        tensors["initial_states"] = torch.tensor(setup.initial_states)
        for name in ARRAYS:
            array = getattr(setup.data, name)
            if array is not None:
                tensors[f"data/{name}"] = torch.tensor(array)
        about["names"] = [setup.data.observation_names, setup.data.action_names]

    def write(stream: BinaryIO) -> None:
        stream.write(save(tensors, metadata={"nopg": json.dumps(about)}))

    write_atomically(path, write)


def load(
    path: str | Path, policy: nn.Module | None = None, device: str = "cpu"
) -> NOPG:
    """Read a model written by `NOPG.save`.

    Args:
        path: The file.
        policy: For models trained on a module of your own: a module of the same
            architecture, whose parameters are then replaced.
        device: Where the model shall live.

    Raises:
        PolicyFileError: If the file is missing, damaged, foreign or of another format.
    """
    from nopg.algorithms.nopg.nopg import NOPG

    about, tensors = _read(Path(path))
    try:
        if about["format"] != FORMAT:
            raise PolicyFileError(
                f"`{path}` must be of format {FORMAT}, it is of format "
                f"{about['format']}; update nopg or save the model again."
            )
        settings = dict(about["config"]) | {"device": device}
        kind = settings.pop("policy")
        if kind == "custom" and policy is None:
            raise PolicyFileError(
                f"`{path}` was trained on a module of your own, whose code no file "
                "holds; pass it: nopg.load(path, policy=YourModule())."
            )
        given = policy if policy is not None else kind
        model = NOPG(given, bandwidths=_bandwidths(about), **settings)
        model.restore(_setup(about, tensors, model.config, policy))
        if about.get("search") is not None:
            from nopg.fitted.search_result import Search

            model.search = Search.from_json(about["search"])
    except PolicyFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise PolicyFileError(
            f"`{path}` must be a complete nopg model, reading it failed "
            f"({type(error).__name__}: {str(error).splitlines()[0]}); save it again."
        ) from None
    return model


def _setup(
    about: dict[str, Any],
    tensors: dict[str, Tensor],
    config: NOPGConfig,
    module: nn.Module | None,
) -> Setup:
    spec = None if about["policy"] is None else PolicySpec(**about["policy"])
    policy = as_policy(module) if module is not None else None
    if policy is None:
        if spec is None:
            raise PolicyFileError("A model must say how its policy is built.")
        policy = spec.build(Seed(0).torch("policy-init"))
    weights = {k[len("policy/") :]: v for k, v in tensors.items() if "policy/" in k}
    # The dtype first: float64 numbers copied into float32 parameters lose half.
    policy.to(device=config.device, dtype=config.torch_dtype)
    policy.load_state_dict(weights)
    space = space_from_json(about["action_space"])
    if space is None:
        raise PolicyFileError("A model must name its action space, none was found.")
    bandwidths = _bandwidths(about)
    if "initial_states" not in tensors:
        return Setup(policy, space, bandwidths, spec)
    arrays: dict[str, Any] = {name: tensors.get(f"data/{name}") for name in ARRAYS}
    numpy_arrays = [None if a is None else a.numpy() for a in arrays.values()]
    states, actions = about["names"]
    data = Dataset(*numpy_arrays, observation_names=states, action_names=actions)
    samples = Samples.of(data, config.torch_dtype, config.device)
    starts = np.asarray(tensors["initial_states"].numpy())
    initial = initial_state_tensor(starts, samples.states)
    problem = lay_out(samples, initial, bandwidths, config)
    return Setup(policy, space, bandwidths, spec, data, starts, problem)


def _bandwidths(about: dict[str, Any]) -> Bandwidths:
    stored = about["bandwidths"]
    names = ("state", "action", "next_state")
    return Bandwidths(*([float(h) for h in stored[name]] for name in names))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as stream:
            metadata = stream.metadata() or {}
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
        about = json.loads(metadata["nopg"])
    except FileNotFoundError:
        raise PolicyFileError(
            f"`{path}` must exist, found no such file; check the path."
        ) from None
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise PolicyFileError(
            f"`{path}` must be a model written by NOPG.save, reading it failed "
            f"({type(error).__name__}: {error}); it is damaged or of another program."
        ) from None
    if not isinstance(about, dict):
        raise PolicyFileError(f"`{path}` must describe a model, it does not.")
    return about, tensors
