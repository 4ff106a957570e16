"""Whether the arguments of a ``sharpness`` call fit each other, and whether the loss can be used at all: said before any work."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from quotientgeo.errors import ArgumentError, DataError, ModeError, first_line
from quotientgeo.measures.batches import Batch, tensors
from quotientgeo.measures.call import Call
from quotientgeo.measures.objective import Objective
from quotientgeo.measures.problem import Observation, observe
from quotientgeo.model.graph import SymmetryGraph


def require_fitting(call: Call, model: Any, loss: Any, graph: Any) -> None:
    """Refuse objects of the wrong kind, and a graph that would be ignored."""
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            f"model must be a torch.nn.Module, got a {type(model).__name__} (load_checkpoint reads folders)"
        )
    if loss is not None and not callable(loss):
        raise ArgumentError(f"loss must be a function loss(model, batch) or None, got a {type(loss).__name__}")
    if graph is not None and not isinstance(graph, SymmetryGraph):
        raise ArgumentError(f"graph must be a SymmetryGraph, got a {type(graph).__name__}")
    if graph is not None and call.measure == "geodesic" and not call.uses_blocks:
        raise ArgumentError("graph was given, but symmetries='none' uses none of its blocks: drop one of the two")
    if torch.is_inference_mode_enabled():
        raise ModeError("sharpness needs gradients, which torch.inference_mode() forbids: call it outside")
    if any(parameter.is_meta for parameter in model.parameters()):
        raise ArgumentError("the model's parameters are on the meta device and hold no values: load its weights first")
    if any(parameter.is_inference() for parameter in model.parameters()):
        raise ArgumentError(
            "the model was built under torch.inference_mode(), so its weights cannot have gradients: build it outside"
        )
    rewritten = [
        name
        for name, module in model.named_modules()
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.max_norm is not None
    ]
    if rewritten:
        raise ArgumentError(
            f"{', '.join(rewritten)}: max_norm rewrites the table in every forward pass, so the loss is no function of the "
            "weights; set max_norm to None"
        )
    if [*model.parameters()] and not any(parameter.requires_grad for parameter in model.parameters()):
        raise ArgumentError(
            "every parameter of the model has requires_grad=False, so there is nothing to move: sharpness moves what is trained; "
            "call model.requires_grad_(True)"
        )


def first_observation(
    objective: Objective, model: nn.Module, parameters: dict[str, Tensor], batch: Batch
) -> Observation:
    """``observe`` on the first batch, where a loss or a batch of the wrong kind shows."""
    try:
        return observe(objective, model, parameters)
    except RuntimeError as error:
        found = _other_dtypes(batch, parameters) if "dtype" in str(error) or "scalar type" in str(error) else ""
        if not found:
            raise
        raise DataError(f"{found}: the model failed on the first batch with {first_line(error)!r}") from error


def _other_dtypes(batch: Batch, parameters: dict[str, Tensor]) -> str:
    """What floating dtypes of the batch are not among those of the parameters; empty if there is none."""
    own = {tensor.dtype for tensor in parameters.values() if tensor.is_floating_point()}
    others = sorted({str(t.dtype) for t in tensors(batch) if t.is_floating_point() and t.dtype not in own})
    if not others:
        return ""
    return f"the batch holds {', '.join(others)} tensors, the model computes in {', '.join(sorted(map(str, own)))}"
