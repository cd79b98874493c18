"""A policy in one file: safetensors for numbers, JSON for text, no pickle.

The reader trusts nothing: the header is size-limited, every field is checked, and
a file can hold numbers and names only, never code.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.data.files import open_plain, parse_json, reading, write_atomically
from nopg.data.history import HistoryLayout
from nopg.data.io.metadata import described, from_described
from nopg.data.transitions import ARRAYS
from nopg.errors import PolicyFileError
from nopg.kernels.bandwidths import Bandwidths

FORMAT = 2
WITH_MEMORY = 3
"""Format of policies that act on the past: without it their states make no sense."""
_WIDTHS = ("state", "action", "next_state")


def write_policy_file(
    path: Path,
    metadata: Mapping[str, Any],
    parameters: Mapping[str, Tensor],
    data: Dataset | None,
    initial_states: NDArray[Any] | None,
) -> None:
    """Write a policy, and the data it was learned from if there are any."""
    from safetensors.torch import save

    about = {"format": WITH_MEMORY if "memory" in metadata else FORMAT, **metadata}
    tensors = {
        f"policy/{k}": v.detach().cpu().contiguous() for k, v in parameters.items()
    }
    if data is not None and initial_states is not None:
        tensors["initial_states"] = torch.tensor(initial_states)
        for name, array in data.arrays().items():
            tensors[f"data/{name}"] = torch.tensor(array)
        about["data"] = described(data)

    about["digest"] = policy_digest(about, tensors)

    def write(stream: BinaryIO) -> None:
        stream.write(save(tensors, metadata={"nopg": json.dumps(about)}))

    write_atomically(path, write)


def read_policy_file(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Metadata and tensors of a policy file.

    The file is read once and whole: what is checked is what is used, though another
    program should write over it meanwhile.
    """
    from safetensors.torch import load

    if not path.exists():
        raise PolicyFileError(
            f"`{path}` must exist, found no such file; check the path."
        )
    advice = "it is damaged or of another program"
    with reading(path, "a policy written by `save`", advice, PolicyFileError):
        with open_plain(path, follow=True) as stream:
            content = stream.read()
        tensors = load(content)
        length = int.from_bytes(content[:8], "little")
        header = parse_json(content[8 : 8 + length])
        metadata = parse_json(header["__metadata__"]["nopg"])
    if metadata.get("format") not in (FORMAT, WITH_MEMORY):
        raise PolicyFileError(
            f"`{path}` must be of format {FORMAT} or {WITH_MEMORY}, it is of format "
            f"{metadata.get('format')}; update nopg or save the policy again."
        )
    if metadata.get("digest") != policy_digest(metadata, tensors):
        raise PolicyFileError(
            f"`{path}` must be as it was saved, its contents have changed since; copy "
            "it anew, or save the policy again."
        )
    return metadata, tensors


def policy_digest(metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """A hash of everything in a policy file: what was altered does not load."""
    rest = {name: value for name, value in metadata.items() if name != "digest"}
    total = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name].numpy()
        total.update(f"{name} {array.dtype} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def stored_data(
    metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Dataset | None:
    """The data set of a policy file, with its names, spaces and notes; None if none."""
    if "initial_states" not in tensors:
        return None
    found = (tensors.get(f"data/{name}") for name in ARRAYS)
    return Dataset(
        *(None if each is None else each.numpy() for each in found),
        **from_described(metadata["data"]),
        history=HistoryLayout.from_json(metadata.get("memory")),
    )


def bandwidths_to_json(bandwidths: Bandwidths | None) -> dict[str, list[str]] | None:
    """Bandwidths as text, to the last bit; infinity has no number in JSON."""
    if bandwidths is None:
        return None
    return {name: [repr(h) for h in getattr(bandwidths, name)] for name in _WIDTHS}


def bandwidths_from_json(stored: Mapping[str, Any] | None) -> Bandwidths | None:
    """What `bandwidths_to_json` wrote."""
    if stored is None:
        return None
    return Bandwidths(*([float(h) for h in stored[name]] for name in _WIDTHS))
