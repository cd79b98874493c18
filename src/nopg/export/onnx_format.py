"""A policy as a graph for any runtime: ONNX."""

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from nopg.errors import ConfigError, require_extra
from nopg.export.deployed import Deployed, DeployedWithMemory


def to_onnx(
    graph: Deployed | DeployedWithMemory,  # what to export
    example: tuple[Tensor, ...],  # two rows of each input
    metadata: Mapping[str, Any],  # kept in the file as JSON under the key "nopg"
) -> bytes:
    """The bytes of an ONNX file whose inputs are those of the graph, (batch, ...)."""
    for module in ("onnx", "onnxscript", "onnxruntime"):
        require_extra(module, "export")
    batch = torch.export.Dim("batch")
    with _tracing():
        program = torch.onnx.export(
            graph,
            example,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_shapes=tuple({0: batch} for _ in example),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    for node in proto.graph.node:
        del node.metadata_props[:]  # lines of source, with the paths of this machine
    proto.doc_string = "A policy learned by nopg; observation in, action out."
    proto.metadata_props.add(key="nopg", value=json.dumps(dict(metadata)))
    content: bytes = proto.SerializeToString()
    return content


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    """Silence what exporters warn of, and say in one sentence why they fail."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # whatever a module of the user's own makes it raise
        reason = str(error).strip().splitlines()[:1]
        raise ConfigError(
            "The policy must be a graph of torch operations to become ONNX, tracing "
            f"it failed ({type(error).__name__}: {''.join(reason)}); write its forward "
            "without branches on values."
        ) from None
    finally:
        logger.setLevel(before)
