"""Batches of transformers' own classes reach the loss as what they are: verified, converted and split."""

from __future__ import annotations

from collections import UserDict, defaultdict
from types import MappingProxyType
from typing import Any

import pytest
import torch

import quotientgeo as qg
from quotientgeo.measures.batches import map_tensors, split_batch
from quotientgeo.model.structure import same_mapping
from quotientgeo.tasks import converted
from tests.helpers.models import hf_batch, hugging_face


class Attributes(dict):  # type: ignore[type-arg]
    """Attributes that are no view of the items: a naive copy would keep the old tensors there."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__dict__ = self


def batch_encoding(data: dict[str, Any]) -> Any:
    from transformers import BatchEncoding

    return BatchEncoding(data)


def batch_feature(data: dict[str, Any]) -> Any:
    from transformers import BatchFeature

    return BatchFeature(data)


def model_output(data: dict[str, Any]) -> Any:
    from dataclasses import make_dataclass

    from transformers.utils import ModelOutput

    made = make_dataclass("Inputs", [(key, Any, None) for key in data], bases=(ModelOutput,))
    return made(**data)


KINDS = [batch_encoding, batch_feature, model_output, Attributes]


@pytest.mark.parametrize("kind", KINDS)
def test_class_and_attributes_survive_a_split(kind: Any) -> None:
    batch = kind({"input_ids": torch.arange(6).reshape(3, 2), "x": torch.arange(3.0)})
    parts = split_batch(batch, 2)
    assert [type(part) for part in parts] == [type(batch)] * 2
    assert torch.equal(torch.cat([part.x for part in parts]), torch.arange(3.0))
    assert torch.equal(torch.cat([part["input_ids"] for part in parts]), torch.arange(6).reshape(3, 2))
    assert batch.x.shape == (3,)  # the batch itself is untouched
    assert batch["x"].shape == (3,)


@pytest.mark.parametrize("kind", KINDS)
def test_conversion_keeps_them_too(kind: Any) -> None:
    batch = kind({"ids": torch.arange(3), "x": torch.arange(3.0)})
    after = converted(torch.nn.Linear(1, 1), [batch], torch.float64).batches[0]
    assert type(after) is type(batch)
    assert (after.x.dtype, after["x"].dtype, after.ids.dtype) == (torch.float64, torch.float64, torch.int64)
    assert batch.x.dtype == torch.float32


def test_what_cannot_be_copied_becomes_a_dict() -> None:
    frozen = MappingProxyType({"x": torch.ones(2)})
    assert type(map_tensors(frozen, torch.neg)) is dict
    assert type(same_mapping(defaultdict(list, x=1), {"x": 2})) is defaultdict

    class ReadOnly(UserDict):  # type: ignore[type-arg]
        def __setitem__(self, key: Any, value: Any) -> None:
            if getattr(self, "closed", False):
                raise TypeError("read-only")
            super().__setitem__(key, value)

    closed = ReadOnly({"x": torch.ones(2)})
    closed.closed = True  # type: ignore[attr-defined]
    assert type(map_tensors(closed, torch.neg)) is dict
    assert torch.equal(closed["x"], torch.ones(2))


def test_a_loss_that_reads_attributes_is_verified_and_measured() -> None:
    model = hugging_face("BertForSequenceClassification").double()
    plain = hf_batch(model) | {"labels": torch.tensor([0, 2])}

    def loss(model: Any, batch: Any) -> Any:
        logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
        return torch.nn.functional.cross_entropy(logits, batch.labels, reduction="sum"), len(batch.labels)

    def value(**options: Any) -> float:
        result = qg.sharpness(model, loss, [batch_encoding(dict(plain))], rho=0.05, steps=3, **options)
        assert result.ok
        return result.value

    whole = value()
    assert value(micro_batch_size=1) == pytest.approx(whole, rel=1e-10)
