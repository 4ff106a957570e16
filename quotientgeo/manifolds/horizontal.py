"""What every manifold of this folder has: horizontal tangents, packed factors, results in the dtype of the arguments."""

from __future__ import annotations

from abc import abstractmethod
from operator import index
from typing import Any

import geoopt
import torch
from torch import Tensor

from quotientgeo.errors import ArgumentError, QuotientgeoError, ShapeError

Check = tuple[bool, str | None]


class HorizontalManifold(geoopt.Manifold):
    """Factors modulo a group, with tangents orthogonal to the orbit; ``ndim`` dimensions hold one packed point."""

    reversible = False

    @property
    @abstractmethod
    def _title(self) -> str:
        """What messages call the manifold."""

    @abstractmethod
    def _lengths_of(self, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """(length of u, length of its part along the orbit) in the metric."""

    @abstractmethod
    def _require_point(self, x: Tensor) -> None:
        """Raise where x has no tangent space."""

    # --- shapes and dtypes ---

    def _assert_check_shape(self, shape: Any, name: str) -> None:
        ok, reason = self._check_shape(shape, name)
        if not ok:
            raise ShapeError(f"{self._title}: {reason}")

    def _scalar(self, value: Tensor, x: Tensor, u: Tensor, keepdim: bool) -> Tensor:
        """A number for each point, in the dtype of x and u; with ``keepdim`` also ones for the packed dimensions."""
        value = value.to(torch.promote_types(x.dtype, u.dtype))
        return value.reshape(*value.shape, *[1] * self.ndim) if keepdim else value

    # --- checks ---

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> Check:
        """Whether x has a tangent space; the tolerances have no effect."""
        try:
            self._require_point(x.detach())
        except QuotientgeoError as error:
            return False, str(error)
        return True, None

    def _check_vector_on_tangent(self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> Check:
        """Horizontality: the vertical part of u has at most the length atol + rtol |u|, in the metric."""
        x, u = x.detach(), u.detach()
        if not u.isfinite().all():
            return False, "the tangent holds NaN or infinity"
        try:
            length, vertical = self._lengths_of(x, u)
        except QuotientgeoError as error:
            return False, str(error)
        if (vertical <= atol + rtol * length).all():
            return True, None
        worst = (vertical / length).max().item()
        return (
            False,
            f"not horizontal: the part along the orbit is {worst:.3g} of the tangent's length (rtol={rtol}, atol={atol})",
        )

    # --- operations ---

    def projx(self, x: Tensor) -> Tensor:
        """x itself; raises where it is no point: being one is an open condition, and what is none has no nearest one."""
        self._require_point(x.detach())
        return x

    def retr(self, x: Tensor, u: Tensor) -> Tensor:
        """The same as ``expmap``."""
        return self.expmap(x, u)

    def transp(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Projection transport: v made horizontal at y, which is in the gauge of x."""
        return self.proju(y, v)


def common_dtype(*like: Tensor) -> torch.dtype:
    """The dtype that holds those of all tensors."""
    dtype = like[0].dtype
    for tensor in like[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def whole_number(manifold: str, name: str, value: Any) -> int:
    """A size as an int, also of numpy.

    Raises:
        ArgumentError: it is no whole number of at least 1.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or index(value) < 1:
        raise ArgumentError(f"{manifold}: {name} must be a whole number of at least 1, got {value!r}")
    return index(value)
