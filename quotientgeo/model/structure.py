"""Batches keep their type when their tensors are replaced, so that a loss can go on reading ``batch.input_ids``."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Mapping
from typing import Any


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
