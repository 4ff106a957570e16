"""A fixed sample of batches: refuse what shuffles, split for memory, say exactly which data a number belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler

from quotientgeo.errors import DataError
from quotientgeo.model.structure import is_record, map_tensors

Batch = Any


def fixed_batches(batches: Iterable[Batch]) -> list[Batch]:
    """The batches as a list. A DataLoader must read its data in order, or its numbers could not be repeated."""
    if isinstance(batches, DataLoader):
        _refuse_shuffling(batches)
    if not isinstance(batches, Iterable):
        raise DataError(f"batches must be a list of batches, got a {type(batches).__name__}")
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
    return [map_tensors(b, torch.clone) if any(t.is_inference() for t in tensors(b)) else b for b in found]


def _refuse_shuffling(loader: DataLoader) -> None:
    """Only what torch itself reads in order is known to be the same in every pass."""
    if isinstance(loader.dataset, IterableDataset):
        return  # it has no sampler: its own order is the user's, and is read once
    sampler = loader.sampler
    if type(loader.batch_sampler) is BatchSampler:
        sampler = loader.batch_sampler.sampler
    elif loader.batch_sampler is not None:
        sampler = loader.batch_sampler
    if not isinstance(sampler, SequentialSampler):
        raise DataError(
            f"the DataLoader draws its order from a {type(sampler).__name__}, which may give other batches in another pass: "
            "build it with shuffle=False and no sampler of your own, or pass list(loader)"
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
    elif is_record(batch):
        for field in fields(batch):
            yield from tensors(getattr(batch, field.name))


def batch_size(batch: Batch) -> int | None:
    """Number of examples: the leading length that all tensors with axes share; None where there is no such length."""
    lengths = {t.shape[0] for t in tensors(batch) if t.ndim > 0}
    return lengths.pop() if len(lengths) == 1 else None


def split_batch(batch: Batch, size: int | None) -> list[Batch]:
    """Micro-batches of at most ``size`` examples; every tensor must have the examples on its leading axis."""
    if size is None:
        return [batch]
    if size < 1:
        raise DataError(f"micro_batch_size must be a positive integer, got {size}")
    total = batch_size(batch)
    if total is None or any(t.ndim == 0 for t in tensors(batch)) or _has_other(batch):
        shapes = sorted({tuple(t.shape) for t in tensors(batch)})
        raise DataError(
            f"micro_batch_size={size}: this {type(batch).__name__} cannot be split, since not everything in it is a tensor with "
            f"the examples on its leading axis (shapes: {shapes}); make it so, or drop micro_batch_size"
        )
    if total <= size:
        return [batch]
    return [map_tensors(batch, itemgetter(slice(start, start + size))) for start in range(0, total, size)]


def _has_other(batch: Batch) -> bool:
    """A list of strings, say, or an object: whether it holds examples or settings cannot be known."""
    if isinstance(batch, Mapping):
        return any(_has_other(value) for value in batch.values())
    if isinstance(batch, (tuple, list)):
        return any(_has_other(item) for item in batch)
    if is_record(batch):
        return any(_has_other(getattr(batch, field.name)) for field in fields(batch))
    return not isinstance(batch, Tensor)


def examples(batch: Batch, count: int) -> Batch:
    """At most ``count`` examples spread evenly over the batch, in order; the whole batch where it cannot be split."""
    try:
        if len(split_batch(batch, count)) == 1:
            return batch
    except DataError:
        return batch
    chosen = spread(batch_size(batch) or 0, count)
    return map_tensors(batch, lambda t: t[chosen])


def spread(total: int, count: int) -> list[int]:
    """At most ``count`` of the numbers 0, ..., total - 1, evenly spaced, the first and the last among them."""
    if total <= count:
        return list(range(total))
    return [round(i * (total - 1) / max(count - 1, 1)) for i in range(count)]


def data_digest(batches: Sequence[Batch]) -> str:
    """sha256 over the structure of all batches in order: keys, shapes, dtypes and bytes of tensors, and plain values."""
    digest = hashlib.sha256()
    for batch in batches:
        _digest(batch, digest)
    return digest.hexdigest()


def _digest(value: Any, digest: Any) -> None:
    if isinstance(value, Tensor):
        digest.update(f"tensor {tuple(value.shape)} {value.dtype}:".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    elif isinstance(value, Mapping):
        digest.update(f"mapping {len(value)}:".encode())
        for key in sorted(value, key=str):
            digest.update(f"{key!r}=".encode())
            _digest(value[key], digest)
    elif isinstance(value, (tuple, list)):
        digest.update(f"sequence {len(value)}:".encode())
        for item in value:
            _digest(item, digest)
    elif is_record(value):
        _digest({f.name: getattr(value, f.name) for f in fields(value)}, digest)
    elif value is None or isinstance(value, (str, bytes, bool, int, float)):
        digest.update(f"{type(value).__name__} {value!r};".encode())
    else:
        raise DataError(
            f"a batch holds a {type(value).__name__}, whose content cannot be digested, so the result could not say on which "
            "data it was measured: use tensors, numbers and strings in dicts, tuples, lists or dataclasses"
        )
