"""A policy as a graph: ONNX for any runtime, PT2 for torch without this library."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from nopg.data.extras import require_extra
from nopg.errors import ConfigError
from nopg.export.deployed import Deployed


def to_onnx(graph: Deployed, example: Tensor, metadata: Mapping[str, Any]) -> bytes:
    """The bytes of an ONNX file with one input, `observation`, (batch, d_s).

    Args:
        graph: What to export.
        example: Two states, (2, d_s).
        metadata: Kept in the file as JSON under the key "nopg".

    Raises:
        ConfigError: If torch cannot turn the policy into a graph.
    """
    for module in ("onnx", "onnxscript", "onnxruntime"):
        require_extra(module, "export")
    batch = torch.export.Dim("batch")
    try:
        with _silenced():
            program = torch.onnx.export(
                graph,
                (example,),
                input_names=["observation"],
                output_names=list(graph.outputs),
                dynamic_shapes=({0: batch},),
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # whatever a module of the user's own makes it raise
        raise _no_graph("ONNX", error) from None
    assert program is not None
    proto = program.model_proto
    for node in proto.graph.node:
        del node.metadata_props[:]  # lines of source, with the paths of this machine
    proto.doc_string = "A policy learned by nopg; observation in, action out."
    proto.metadata_props.add(key="nopg", value=json.dumps(dict(metadata)))
    content: bytes = proto.SerializeToString()
    return content


def to_pt2(graph: Deployed, example: Tensor) -> bytes:
    """The bytes of a file for `torch.export.load`, with one dynamic batch axis.

    Raises:
        ConfigError: If torch cannot turn the policy into a graph.
    """
    stream = io.BytesIO()
    try:
        with _silenced():
            dynamic = ({0: torch.export.Dim("batch")},)
            program = torch.export.export(graph, (example,), dynamic_shapes=dynamic)
            for node in program.graph.nodes:
                node.meta.pop("stack_trace", None)  # paths of this machine
            torch.export.save(program, stream)
    except Exception as error:  # whatever a module of the user's own makes it raise
        raise _no_graph("PT2", error) from None
    return stream.getvalue()


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Exporters warn of packages and settings that the user has no part in."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _no_graph(name: str, error: Exception) -> ConfigError:
    reason = str(error).strip().splitlines()[:1]
    return ConfigError(
        f"The policy must be a graph of torch operations to become {name}, tracing it "
        f"failed ({type(error).__name__}: {''.join(reason)}); write its forward "
        "without branches on values."
    )
