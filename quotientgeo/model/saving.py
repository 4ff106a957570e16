"""Writing weights as a checkpoint folder that is like another one in all but its values."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from quotientgeo.errors import CheckpointError
from quotientgeo.model.inventory import storage_key
from quotientgeo.model.spellings import respelled
from quotientgeo.model.weights_file import local_path, read_weights

WEIGHTS = "model.safetensors"
# what is not copied: weights in any format, states of a training run, other checkpoints, tools' own folders
_LEFT_BEHIND = (
    *(
        f"*{ending}"
        for ending in (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".ot")
    ),
    *(f"*{ending}.index.json" for ending in (".safetensors", ".bin", ".h5", ".msgpack")),
    *("checkpoint-*", "onnx", "openvino", ".*", "__pycache__"),
)


def save_checkpoint(
    model: nn.Module,
    folder: str | Path,
    *,
    like: str | Path,
    state: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
) -> Path:
    """Write a model as the Hugging Face folder ``folder``, whose files are those of ``like`` but for the weights.

    Tensors keep the names and dtypes that they have in ``like``; those that are no part of the model are copied as they are.
    Everything else there (config.json, tokenizer, image processor, ...) is copied. Weights become one model.safetensors.

    model: what ``load_checkpoint(like)`` gave. state: a state dict to write in place of the model's own, for instance
    ``symmetry_graph(model).move()``. dtype: of the floating tensors that are written, None for those of ``like``.
    The folder appears complete or not at all.

    Raises CheckpointError where ``folder`` exists and is not empty or cannot be written, or a value does not fit its dtype.
    """
    from safetensors.torch import save_file

    folder, like = local_path(folder), local_path(like)
    if not isinstance(model, nn.Module) or not (state is None or isinstance(state, Mapping)):
        given = model if not isinstance(model, nn.Module) else state
        raise CheckpointError(f"save_checkpoint takes a model, and a state dict or None, got a {type(given).__name__}")
    require_free(folder, like)
    stored, _ = read_weights(like)
    tensors = _as_stored(
        dict(model.state_dict() if state is None else state), stored, respelled(model, stored)[1], dtype
    )
    partial = folder.parent / f".{folder.name}.partial-{os.getpid()}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(like, partial, ignore=shutil.ignore_patterns(*_LEFT_BEHIND))
        save_file(tensors, partial / WEIGHTS, metadata={"format": "pt"})
        os.replace(partial, folder)
    except (OSError, shutil.Error) as error:
        raise CheckpointError(f"{folder} cannot be written: {getattr(error, 'strerror', None) or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def require_free(folder: Path, like: Path) -> None:
    """Raises CheckpointError where a checkpoint like ``like`` could not be written to ``folder``."""
    if not like.is_dir():
        raise CheckpointError(f"{like} is no checkpoint folder to take names, dtypes and other files from")
    if folder.is_dir() and any(folder.iterdir()):
        raise CheckpointError(
            f"{folder} exists and is not empty: it is not overwritten; choose another folder or remove it"
        )
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file: choose a new folder")
    if folder.resolve().is_relative_to(like.resolve()):
        raise CheckpointError(f"{folder} lies inside the checkpoint {like}: choose a folder elsewhere")


def _as_stored(
    state: Mapping[str, Any], stored: Mapping[str, Tensor], renamed: Mapping[str, str], dtype: torch.dtype | None
) -> dict[str, Tensor]:
    """The values of ``state`` under the names and in the dtypes of ``stored``, or floating ones in ``dtype``."""
    tensors, placed = {}, set()
    for name, before in stored.items():
        value = state.get(renamed.get(name, name))
        if not isinstance(value, Tensor):
            tensors[name] = before
            continue
        placed.add(storage_key(value))
        if value.shape != before.shape:
            raise CheckpointError(
                f"{name!r} has shape {tuple(value.shape)}, but {tuple(before.shape)} in the checkpoint"
            )
        kind = dtype if dtype is not None and before.is_floating_point() else before.dtype
        new = value.detach().cpu().to(kind)
        if before.is_floating_point() and not torch.equal(torch.isfinite(new), torch.isfinite(value.detach().cpu())):
            raise CheckpointError(f"values of {name!r} overflow {kind}, the type in which the checkpoint stores it")
        tensors[name] = new.contiguous().clone()  # names that share memory are stored apart
    lost = [name for name, value in state.items() if isinstance(value, Tensor) and storage_key(value) not in placed]
    if lost:
        raise CheckpointError(f"the checkpoint has no tensor for {', '.join(lost[:5])}: it belongs to another model")
    return {name: tensor.contiguous() for name, tensor in tensors.items()}
