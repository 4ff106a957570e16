"""Fixed samples, splitting, digests."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler, TensorDataset

from quotientgeo.errors import DataError
from quotientgeo.measures.batches import batch_size, data_digest, examples, fixed_batches, map_tensors, split_batch


def test_a_generator_and_an_ordered_loader_are_materialised():
    data = TensorDataset(torch.arange(6.0), torch.arange(6))
    assert len(fixed_batches(DataLoader(data, batch_size=2))) == 3
    assert len(fixed_batches(x for x in (torch.ones(2), torch.ones(2)))) == 2


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        (DataLoader(TensorDataset(torch.arange(6.0)), batch_size=2, shuffle=True), "RandomSampler"),
        ([], "empty"),
        ({"input_ids": torch.ones(2, 3)}, r"\[batch\]"),
        (torch.ones(2, 3), r"\[batch\]"),
        ([torch.ones(0, 3)], "batch 0 holds no examples"),
    ],
)
def test_what_is_not_a_fixed_sample_is_refused(batches, words):
    with pytest.raises(DataError, match=words):
        fixed_batches(batches)


class Odd(Sampler):
    """A sampler of one's own: nobody knows its order."""

    def __iter__(self):
        return iter([3, 1, 2, 0])

    def __len__(self):
        return 4


class OddBatches(Odd):
    def __iter__(self):
        return iter([[3, 1], [2, 0]])


@pytest.mark.parametrize("settings", [{"sampler": Odd()}, {"batch_sampler": OddBatches()}])
def test_a_sampler_of_one_s_own_is_refused_by_name(settings):
    with pytest.raises(DataError, match="Odd"):
        fixed_batches(DataLoader(TensorDataset(torch.arange(4.0)), **settings))


def test_an_iterable_dataset_is_read_once():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(torch.arange(4.0))

    assert len(fixed_batches(DataLoader(Stream(), batch_size=2))) == 2


@dataclass
class Record:
    x: torch.Tensor
    label: str = "a"


def test_an_object_is_not_split_but_digested_in_full():
    with pytest.raises(DataError, match="Record cannot be split"):
        split_batch(Record(torch.ones(4)), 2)
    digests = {
        data_digest([Record(torch.ones(4))]),
        data_digest([Record(torch.zeros(4))]),
        data_digest([Record(torch.ones(4), "b")]),
        data_digest([{"x": torch.ones(4)}]),
        data_digest([{"y": torch.ones(4)}]),
        data_digest([[torch.ones(4), 1]]),
        data_digest([[torch.ones(4), 2]]),
    }
    assert len(digests) == 7
    with pytest.raises(DataError, match="object"):
        data_digest([object()])


def test_the_size_of_a_batch_is_what_all_tensors_share():
    assert batch_size({"x": torch.ones(4, 2), "y": torch.ones(4), "t": torch.tensor(1.0)}) == 4
    assert batch_size({"class_weights": torch.ones(3), "x": torch.ones(4, 2)}) is None
    assert batch_size("text") is None


def test_split_keeps_structure_and_order():
    batch = {"x": torch.arange(10).reshape(5, 2), "y": (torch.arange(5), torch.arange(5) * 2)}
    parts = split_batch(batch, 2)
    assert [batch_size(part) for part in parts] == [2, 2, 1]
    assert torch.equal(torch.cat([part["y"][1] for part in parts]), batch["y"][1])
    assert split_batch(batch, None) == [batch]
    assert split_batch(batch, 5) == [batch]


@pytest.mark.parametrize(
    "batch",
    [
        {"x": torch.ones(4, 2), "bias": torch.ones(3)},
        {"x": torch.ones(4, 2), "t": torch.tensor(1.0)},
        {"x": torch.ones(4, 2), "texts": ["a", "b", "c", "d"]},
    ],
)
def test_what_cannot_be_split_is_refused_but_can_be_looked_at(batch):
    with pytest.raises(DataError, match="cannot be split"):
        split_batch(batch, 2)
    assert examples(batch, 2) is batch


def test_the_digest_sees_values_shapes_dtypes_and_borders():
    a, b = torch.arange(4.0), torch.arange(4.0) + 1
    digests = {
        data_digest([a, b]),
        data_digest([b, a]),
        data_digest([torch.cat([a, b])]),
        data_digest([a.double(), b]),
        data_digest([a.reshape(2, 2), b]),
        data_digest([{"a": a, "b": b}]),
    }
    assert len(digests) == 6
    assert data_digest([a, b]) == data_digest([a.clone(), b.clone()])


@dataclass(frozen=True)
class Examples:
    x: torch.Tensor
    y: torch.Tensor
    name: str = "digits"


def test_dataclasses_are_batches_like_others():
    batch = Examples(torch.ones(4, 2), torch.arange(4))
    assert batch_size(batch) == 4
    half = map_tensors(batch, lambda t: t[:2])
    assert (type(half), half.name, half.y.tolist()) == (Examples, "digits", [0, 1])
    assert batch.y.tolist() == [0, 1, 2, 3]
    assert [len(part.y) for part in split_batch(replace(batch, name=batch.y), 3)] == [3, 1]
    with pytest.raises(DataError, match="cannot be split"):
        split_batch(batch, 3)  # the name may hold examples
