"""Policies and other nests of tensors in files: safetensors and JSON, no pickle."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.data.files import open_plain, parse_json, reading, write_atomically
from nopg.data.io.metadata import described, from_described
from nopg.data.transitions import ARRAYS
from nopg.errors import PolicyFileError
from nopg.kernels.bandwidths import Bandwidths

FORMAT = 2
WITH_MEMORY = 3  # format of policies that act on the past
_WIDTHS = ("state", "action", "next_state")
_STRUCTURE, _DIGEST_BYTES = "structure", 32


def write_policy_file(
    path: Path,
    metadata: Mapping[str, Any],
    parameters: Mapping[str, Tensor],
    data: Dataset | None,
    initial_states: NDArray[Any] | None,
) -> None:
    """Write a policy, and the data it was learned from if there are any."""
    about = {"format": WITH_MEMORY if "memory" in metadata else FORMAT, **metadata}
    tensors = {f"policy/{k}": v.detach().cpu().contiguous() for k, v in parameters.items()}
    if data is not None and initial_states is not None:
        tensors["initial_states"] = torch.tensor(initial_states)
        tensors |= {f"data/{k}": torch.tensor(v) for k, v in data.arrays().items()}
        about["data"] = described(data)
    about["digest"] = policy_digest(about, tensors)
    content = safetensors.torch.save(tensors, metadata={"nopg": json.dumps(about)})
    write_atomically(path, lambda stream: stream.write(content))


def read_policy_file(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Metadata and tensors of a policy file; what is checked is what is used."""
    if not path.exists():
        raise PolicyFileError(f"`{path}` must exist, found no such file; check the path.")
    advice = "it is damaged or of another program"
    with reading(path, "a policy written by `save`", advice, PolicyFileError):
        with open_plain(path, follow=True) as stream:
            content = stream.read()
        tensors = safetensors.torch.load(content)
        header = parse_json(content[8 : 8 + int.from_bytes(content[:8], "little")])
        metadata = parse_json(header["__metadata__"]["nopg"])
    if metadata.get("format") not in (FORMAT, WITH_MEMORY):
        raise PolicyFileError(
            f"`{path}` must be of format {FORMAT} or {WITH_MEMORY}, it is of format "
            f"{metadata.get('format')}; update nopg or save the policy again."
        )
    if metadata.get("digest") != policy_digest(metadata, tensors):
        raise PolicyFileError(f"`{path}` must be as it was saved, it has changed; save it again.")
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


def stored_data(metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Dataset | None:
    """The data set of a policy file, with its names, spaces and notes; None if none."""
    if "initial_states" not in tensors:
        return None
    found = (tensors.get(f"data/{name}") for name in ARRAYS)
    arrays = (None if each is None else each.numpy() for each in found)
    return Dataset(*arrays, **from_described(metadata["data"]))


def bandwidths_to_json(bandwidths: Bandwidths) -> dict[str, list[str]]:
    """Bandwidths as text, to the last bit; infinity has no number in JSON."""
    return {name: [repr(h) for h in getattr(bandwidths, name)] for name in _WIDTHS}


def bandwidths_from_json(stored: Mapping[str, Any]) -> Bandwidths:
    """What `bandwidths_to_json` wrote."""
    return Bandwidths(*([float(h) for h in stored[name]] for name in _WIDTHS))


def to_bytes(nest: Any) -> bytes:
    """A nest as the content of a file."""
    tensors: dict[str, Tensor] = {}
    structure = json.dumps(flatten(nest, tensors)).encode()
    tensors[_STRUCTURE] = torch.frombuffer(bytearray(structure), dtype=torch.uint8)
    content = safetensors.torch.save(tensors)
    return hashlib.sha256(content).digest() + content


def from_bytes(content: bytes) -> Any:
    """The nest in a file, tuples as lists; a damaged one is a ValueError."""
    digest, content = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if digest != hashlib.sha256(content).digest():
        raise ValueError("its checksum is wrong")
    tensors = safetensors.torch.load(content)
    return unflatten(parse_json(tensors[_STRUCTURE].numpy().tobytes()), tensors)


def flatten(value: Any, tensors: dict[str, Tensor], name: str = "") -> Any:
    """`value` as JSON, its tensors put into `tensors` under their paths."""
    if isinstance(value, Tensor):
        # Files hold rows one after the other. How a matrix lay in memory decides in which order
        # products add up, and so their last bits: it is kept as well.
        order = sorted(range(value.ndim), key=lambda axis: -value.stride()[axis])
        tensors[name] = value.detach().cpu().permute(order).clone().contiguous()
        return {"tensor": name, "order": order}
    if isinstance(value, dict):
        return {k: flatten(v, tensors, f"{name}/{k}") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [flatten(v, tensors, f"{name}/{i}") for i, v in enumerate(value)]
    return value


def unflatten(value: Any, tensors: dict[str, Tensor]) -> Any:
    """What `flatten` took apart; tuples come back as lists."""
    if isinstance(value, list):
        return [unflatten(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"tensor", "order"}:
        order = value["order"]
        return tensors[value["tensor"]].permute(sorted(range(len(order)), key=order.__getitem__))
    return {k: unflatten(v, tensors) for k, v in value.items()}
