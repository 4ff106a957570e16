"""Access to the catalogue's generated code by metric name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TypeVar

from torch import Tensor

from quotientgeo.errors import ArgumentError
from quotientgeo.geometry.span import Span

ORDERS = (1, 2, 3, 4)


Factor = TypeVar("Factor", Tensor, Span)


@cache
def generated_code(metric: str) -> ModuleType:
    """The generated module of the GL(h) pair with this metric: inner, gradient, momentum, acceleration, taylor_k, ..."""
    return import_module(f"quotientgeo.catalogue.gl_pair_{metric}.generated")


def taylor_point(metric: str, order: int, G: Factor, H: Factor, xi_G: Factor, xi_H: Factor) -> tuple[Factor, Factor]:
    """End point at t = 1 of the order-k Taylor polynomial of the geodesic from (G, H) along (xi_G, xi_H), on tensors or spans."""
    if order not in ORDERS:
        raise ArgumentError(f"geodesic order must be one of {ORDERS}, got {order!r}")
    end_G, end_H = getattr(generated_code(metric), f"taylor_{order}")(G, H, xi_G, xi_H)
    return end_G, end_H
