"""Free translations on tensors: applying them and their canonical form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor

from quotientgeo.model.blocks import BoundLeg, ShiftBlock

Params = Mapping[str, Tensor]


class Translations:
    """Shift blocks bound to parameter shapes. All functions return a new mapping and change nothing in place."""

    def __init__(
        self,
        shifts: Iterable[ShiftBlock],
        shapes: Mapping[str, Sequence[int]],
        aliases: Mapping[str, Sequence[str]] | None = None,
    ):
        self.shifts = tuple(shifts)
        self._shapes = shapes
        self._aliases = dict(aliases or {})

    def amounts(self, params: Params) -> dict[str, Tensor]:
        """The value (h,) of each shift's first leg, by the shift's name."""
        return {shift.name: _rows(params, shift.bound(self._shapes)[0][0])[0] for shift in self.shifts}

    def apply(self, params: Params, amounts: Mapping[str, Tensor], *, alone: bool = False) -> dict[str, Tensor]:
        """legs += t and bias -= W t for every shift with an amount t (h,); differentiable in t.

        ``alone`` moves the first leg only, without its followers and compensators (the control of a verification).
        """
        new = dict(params)
        touched: set[str] = set()
        for shift in self.shifts:
            if shift.name not in amounts:
                continue
            t = amounts[shift.name]
            legs, weights = shift.bound(self._shapes)
            for leg in legs[:1] if alone else legs:
                at = leg.positions()
                name = leg.leg.tensor
                new[name] = _added(new[name], at.reshape(-1), t.expand(at.shape).reshape(-1))
                touched.add(name)
            for weight, bias in () if alone else weights:
                new[bias] = new[bias] - _rows(params, weight) @ t
                touched.add(bias)
        for name in touched:
            for alias in self._aliases.get(name, ()):
                if alias in new:
                    new[alias] = new[name]
        return new

    def canonical(self, params: Params) -> dict[str, Tensor]:
        """The parameters of the same function at which every shift's first leg is exactly zero."""
        return self.apply(params, {name: -value for name, value in self.amounts(params).items()})


def _rows(params: Params, leg: BoundLeg) -> Tensor:
    at = leg.positions().to(params[leg.leg.tensor].device)
    return params[leg.leg.tensor].reshape(-1)[at] + leg.leg.offset


def _added(tensor: Tensor, at: Tensor, values: Tensor) -> Tensor:
    return tensor.reshape(-1).index_add(0, at.to(tensor.device), values.to(tensor)).reshape(tensor.shape)
