"""A fitted policy becomes one file that runs without this library."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nopg.data.files import write_atomically
from nopg.data.spaces import space_to_json
from nopg.errors import ConfigError
from nopg.export import numpy_reader
from nopg.export.deployed import Deployed, DeployedWithMemory, deployed
from nopg.export.numpy_format import to_numpy
from nopg.export.torch_formats import to_onnx, to_pt2
from nopg.export.verify import (
    dtype_of,
    graph_inputs,
    onnx_runner,
    pt2_runner,
    trial_states,
    verify,
)

if TYPE_CHECKING:
    from nopg.fitted.policy import FittedPolicy

SUFFIXES = {"onnx": ".onnx", "pt2": ".pt2", "numpy": ".npz"}
READER = "read_policy.py"
"""Name of the reader that is put beside a numpy file."""


@dataclass(frozen=True)
class Exported:
    """A file that was checked and written.

    Attributes:
        path: The file.
        n_states: States at which it was compared with the library.
        difference: Largest difference of an action there.
        reader: The program beside it, for the numpy format.
    """

    path: Path
    n_states: int
    difference: float
    reader: Path | None = None


def export_policy(
    policy: FittedPolicy, path: str | Path, format: str | None = None
) -> Exported:
    """Write `policy` for other programs, scaling and limits inside.

    The file is first compared with `policy.predict` at 10,000 states; it is there,
    whole, only if every action agrees.

    Args:
        policy: A fitted policy.
        path: Where to.
        format: "onnx", "pt2" or "numpy"; by default what the suffix says.

    Returns:
        The file and the largest difference found.

    Raises:
        ConfigError: If the policy cannot be held by the format.
        NopgError: If an action differs, or the folder cannot be written.
        MissingExtraError: If the format needs a package that is not there.
    """
    path = Path(path)
    kind = format or {s: f for f, s in SUFFIXES.items()}.get(path.suffix)
    if kind not in SUFFIXES:
        raise ConfigError(
            f"`format` must be one of {', '.join(SUFFIXES)}, got {kind or path.name!r};"
            " choose one, or a path that ends in .onnx, .pt2 or .npz."
        )
    reader = path.with_name(READER) if kind == "numpy" else None
    program = Path(numpy_reader.__file__).read_bytes()
    first, _, _ = program.partition(b"\n")
    if reader and reader.exists() and not reader.read_bytes().startswith(first):
        raise ConfigError(
            f"`{reader}` must be free for the reader of the export, there is another "
            "file of this name; choose another folder."
        )
    graph, states = deployed(policy), trial_states(policy)
    example = graph_inputs(policy, states[:2])
    run: Callable[..., Any]
    if kind == "numpy":
        content = to_numpy(graph)
        run = numpy_reader.NumpyPolicy(io.BytesIO(content))
        if policy.memory is not None:
            run = numpy_reader.NumpyMemoryPolicy(io.BytesIO(content)).step
    elif kind == "pt2":
        content = to_pt2(graph, example)
        run = pt2_runner(content)
    else:
        content = to_onnx(graph, example, _metadata(policy, graph))
        run = onnx_runner(content)
    difference = verify(policy, run, states)
    write_atomically(path, lambda stream: stream.write(content))
    if reader is not None:
        write_atomically(reader, lambda stream: stream.write(program))
    return Exported(path, len(states), difference, reader)


def _metadata(
    policy: FittedPolicy, graph: Deployed | DeployedWithMemory
) -> dict[str, Any]:
    """What a person finds in the file: names, limits, versions."""
    memory = policy.memory
    return ({} if memory is None else {"memory": memory.to_json()}) | {
        "nopg": version("nopg"),
        "dtype": str(dtype_of(policy)).removeprefix("torch."),
        "outputs": graph.outputs,
        "action_space": space_to_json(policy.action_space),
        "observation_names": policy.observation_names,
        "action_names": None if policy.data is None else policy.data.action_names,
    }
