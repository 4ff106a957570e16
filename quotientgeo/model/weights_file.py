"""Reading tensors from disk: safetensors or .bin, one file or shards with an index. Pickled objects are never executed."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from quotientgeo.errors import CheckpointError, first_line

_SINGLE = ("model.safetensors", "pytorch_model.bin")
_INDEXED = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def local_path(path: object) -> Path:
    """A path from what a user gave, ``CheckpointError`` where it is none."""
    if not isinstance(path, (str, PathLike)):
        raise CheckpointError(f"a checkpoint is a local folder, given as its path; got {path!r:.80}")
    return Path(path)


def read_weights(path: Path) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """All tensors stored in a folder or file, on the CPU, and the names of the files read.

    A folder's model.safetensors comes before its index of shards, and both before the same in .bin. ``CheckpointError``
    where a file is missing, damaged or holds anything but tensors, or an index and its shards disagree.
    """
    if path.is_file():
        return read_file(path), (path.name,)
    if not path.is_dir():
        raise CheckpointError(f"{path} does not exist: weights are a local folder or file; nothing is downloaded")
    for single, index in zip(_SINGLE, _INDEXED, strict=True):
        if (path / single).is_file():
            return read_file(path / single), (single,)
        if (path / index).is_file():
            return _read_shards(path, index)
    lone = sorted(p.name for p in path.iterdir() if "-of-" in p.name and p.suffix in (".safetensors", ".bin"))
    if lone:
        raise CheckpointError(
            f"{path} holds shards ({lone[0]}, ...) without their index ({_INDEXED[0]}): a part may be missing"
        )
    raise CheckpointError(f"{path} holds no weights: expected {_SINGLE[0]}, {_INDEXED[0]} or {_SINGLE[1]}")


def read_file(path: Path) -> dict[str, Tensor]:
    """All tensors of one .safetensors file or one torch file (read with ``weights_only``), on the CPU."""
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path, device="cpu")
        except (SafetensorError, OSError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged or no safetensors file (truncated?): {error}") from error
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} holds other pickled objects than tensors, or is damaged; it was not executed. Save a state dict "
            "(safetensors is best)"
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, IndexError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged or no torch file: {first_line(error)}") from error
    if not isinstance(found, Mapping) or not all(
        isinstance(k, str) and isinstance(v, Tensor) for k, v in found.items()
    ):
        held = (
            f"a dictionary with {', '.join(map(repr, list(found)[:5]))}"
            if isinstance(found, Mapping)
            else type(found).__name__
        )
        raise CheckpointError(
            f"{path} holds {held}, not a state dict of tensors: take the state dict out and pass it as a mapping"
        )
    return dict(found)


def _read_shards(folder: Path, index: str) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    try:
        weight_map = json.loads((folder / index).read_text())["weight_map"]
        shards = sorted(set(weight_map.values()), key=str)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{folder / index} is not an index of shards: {error!r}") from error
    outside = [shard for shard in shards if not isinstance(shard, str) or Path(shard).name != shard]
    if outside:
        raise CheckpointError(f"{folder / index} points outside its folder: {outside[0]!r}")
    missing = [shard for shard in shards if not (folder / shard).is_file()]
    if missing:
        raise CheckpointError(f"{folder}: {index} lists shards that are missing: {', '.join(missing)}")
    tensors: dict[str, Tensor] = {}
    for shard in shards:
        found = read_file(folder / shard)
        listed = {name for name, where in weight_map.items() if where == shard}
        for what, names in (
            ("lists for it but it lacks", listed - found.keys()),
            ("does not list but it holds", found.keys() - listed),
        ):
            if names:
                raise CheckpointError(f"{folder / shard}: {index} {what} {', '.join(sorted(names)[:8])}")
        tensors |= found
    return tensors, tuple(shards)
