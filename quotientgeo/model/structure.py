"""Batches keep their type when their tensors are replaced, so that a loss can go on reading ``batch.input_ids``."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor


def in_dtype(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """A floating tensor in ``dtype``; any other as it is."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def is_record(value: Any) -> bool:
    """Whether it is an instance of a dataclass."""
    return is_dataclass(value) and not isinstance(value, type)


def map_tensors(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """The same structure with ``function`` applied to each tensor, in mappings (whose class and attributes stay), tuples, lists
    and dataclasses."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return same_mapping(value, {key: map_tensors(item, function) for key, item in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(item, function) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(map_tensors(item, function) for item in value)
    if is_record(value):
        copied = copy.copy(value)
        for field in fields(value):  # of a frozen dataclass too, and fields that its constructor does not take
            object.__setattr__(copied, field.name, map_tensors(getattr(value, field.name), function))
        return copied
    return value


def same_mapping(mapping: Mapping[Any, Any], values: dict[Any, Any]) -> Mapping[Any, Any]:
    """A copy of ``mapping`` with ``values`` under its keys: the same class and attributes for dicts and UserDicts of any class
    (transformers' BatchEncoding, BatchFeature and ModelOutput are such), else a dict. ``mapping`` is not changed."""
    if type(mapping) is dict or not isinstance(mapping, (dict, UserDict)):
        return values
    try:
        copied = copy.copy(mapping)
        for key, value in values.items():
            attribute = isinstance(key, str) and getattr(mapping, key, None) is mapping[key]
            copied[key] = value
            if attribute and getattr(copied, key, None) is not value:  # attributes that are no view of the items
                setattr(copied, key, value)
    except (AttributeError, KeyError, TypeError, ValueError):  # a class that cannot be copied or is read-only
        return values
    return copied


def all_in_dtype(value: Any, dtype: torch.dtype) -> Any:
    """The same structure with every floating tensor in ``dtype``."""
    return map_tensors(value, lambda tensor: in_dtype(tensor, dtype))
