"""A fixed sample of batches: refuse what shuffles, split for memory, say exactly which data a number belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from quotientgeo.errors import DataError

Batch = Any
_ORDERED_SAMPLERS = (SequentialSampler,)


def fixed_batches(batches: Iterable[Batch]) -> list[Batch]:
    """The batches as a list. A DataLoader must read its data in order, or its numbers could not be repeated."""
    if isinstance(batches, DataLoader):
        _refuse_shuffling(batches)
    if isinstance(batches, (Mapping, Tensor, str)):
        raise DataError(
            f"batches must be a list of batches, got one {type(batches).__name__}: write [batch] to measure on a single batch"
        )
    found = list(batches)
    if not found:
        raise DataError("batches is empty: sharpness needs at least one batch")
    for index, batch in enumerate(found):
        if batch_size(batch) == 0:
            raise DataError(f"batch {index} holds no examples")
    return found


def _refuse_shuffling(loader: DataLoader) -> None:
    sampler = loader.sampler
    inner = loader.batch_sampler.sampler if isinstance(loader.batch_sampler, BatchSampler) else sampler
    for kind in (sampler, inner):
        if isinstance(kind, RandomSampler) or not (isinstance(kind, _ORDERED_SAMPLERS) or kind is None):
            raise DataError(
                f"the DataLoader draws its order from a {type(kind).__name__}, so every pass sees other batches: "
                "build it with shuffle=False, or pass a list of batches"
            )


def tensors(batch: Batch) -> Iterator[Tensor]:
    """All tensors in a batch: dicts in the order of their keys, tuples and lists in theirs."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for key in sorted(batch, key=str):
            yield from tensors(batch[key])
    elif isinstance(batch, (tuple, list)):
        for item in batch:
            yield from tensors(item)


def map_tensors(batch: Batch, function: Any) -> Batch:
    """The same structure with ``function`` applied to each tensor; a mapping of any class becomes a dict."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        return {key: map_tensors(value, function) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(value, function) for value in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(map_tensors(value, function) for value in batch)
    return batch


def batch_size(batch: Batch) -> int:
    """Number of examples: the common leading length of the tensors, 1 where there is none."""
    lengths = [t.shape[0] for t in tensors(batch) if t.ndim > 0]
    return lengths[0] if lengths else 1


def split_batch(batch: Batch, size: int | None) -> list[Batch]:
    """Micro-batches of at most ``size`` examples; every tensor must have the examples on its leading axis."""
    if size is None:
        return [batch]
    if size < 1:
        raise DataError(f"micro_batch_size must be a positive integer, got {size}")
    total = batch_size(batch)
    if total <= size:
        return [batch]
    uneven = sorted({tuple(t.shape) for t in tensors(batch) if t.ndim == 0 or t.shape[0] != total})
    if uneven or _has_plain_sequence(batch):
        raise DataError(
            f"micro_batch_size={size}: this batch cannot be split, since not everything in it has the {total} examples on the "
            f"leading axis (other shapes: {uneven}); make it tensors of one leading length, or drop micro_batch_size"
        )
    return [map_tensors(batch, lambda t, a=start: t[a : a + size]) for start in range(0, total, size)]


def _has_plain_sequence(batch: Batch) -> bool:
    """A list of strings, say: whether it holds examples or settings cannot be known."""
    if isinstance(batch, Mapping):
        return any(_has_plain_sequence(value) for value in batch.values())
    if isinstance(batch, (tuple, list)):
        return any(not isinstance(item, (Tensor, Mapping, tuple, list)) or _has_plain_sequence(item) for item in batch)
    return False


def examples(batch: Batch, count: int) -> Batch:
    """The first ``count`` examples, or the whole batch where it cannot be split."""
    try:
        return split_batch(batch, count)[0]
    except DataError:
        return batch


def data_digest(batches: Sequence[Batch]) -> str:
    """sha256 over shape, dtype and bytes of every tensor of every batch, in order."""
    digest = hashlib.sha256()
    for batch in batches:
        for tensor in tensors(batch):
            digest.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        digest.update(b"/")
    return digest.hexdigest()
