"""Level (e): float64 tensors, every derivative by reverse-mode automatic differentiation.

Directional derivatives use two reverse passes (the transpose of the transpose). Forward mode is avoided: in torch 2.13
``jacfwd(hessian(.))`` through ``torch.linalg.solve`` returns wrong third derivatives. Inverses are ``torch.linalg.inv``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import torch
from torch import Tensor

from quotientgeo.symbolic.algebra import Dimension
from quotientgeo.symbolic.derivation.calculus import Calculus, Reading, Values, Variable
from quotientgeo.symbolic.derivation.certificate import Level, LevelResult, Outcome
from quotientgeo.symbolic.derivation.formula import Formula
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.kinds import SPREAD, Unit, basis, integers, partners
from quotientgeo.symbolic.derivation.levels.points import (
    Sizes,
    assign_sizes,
    generator,
    no_inverse,
    number,
    numbers,
    sizes_text,
)
from quotientgeo.symbolic.derivation.levels.reading import Evaluation
from quotientgeo.symbolic.derivation.statements import Statement

BESIDE = 1e-12  # relative change of a point that tells rounding errors from what is false
POINTS = 3  # at most
_SINGULAR = 1e14  # condition in the Frobenius norm; singular matrices come out above 1e15, test points below 1e10
TOLERANCE = 1e-9  # relative to the larger side; true residuals are near 1e-14, wrong formulas near 1e-2 or more


class TorchArithmetic:
    """Dense float64 matrices, or stacks of them."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes

    def number(self, value: Fraction) -> Tensor:
        return torch.full((1, 1), float(value), dtype=torch.float64)

    def identity(self, size: Dimension) -> Tensor:
        return torch.eye(number(size, self.sizes), dtype=torch.float64)

    def zero(self, rows: Dimension, columns: Dimension) -> Tensor:
        return torch.zeros(number(rows, self.sizes), number(columns, self.sizes), dtype=torch.float64)

    def add(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right

    def scale(self, value: Tensor, factor: Fraction) -> Tensor:
        return value * float(factor)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        return left @ right

    def transpose(self, value: Tensor) -> Tensor:
        return value.mT

    def inverse(self, value: Tensor) -> Tensor:
        """LinAlgError for what is singular within rounding, of which ``torch.linalg.inv`` may return any matrix."""
        out = torch.linalg.inv(value)
        conditions = torch.linalg.matrix_norm(value.detach()) * torch.linalg.matrix_norm(out.detach())
        if not bool((conditions < _SINGULAR).all()):  # also for NaN
            raise torch.linalg.LinAlgError(f"singular matrix: condition {conditions.max().item():.1e}")
        return out

    def trace(self, value: Tensor) -> Tensor:
        return value.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]

    def multiply(self, scalar: Tensor, value: Tensor) -> Tensor:
        return scalar * value

    def ones(self, rows: Dimension, columns: Dimension) -> Tensor:
        return torch.ones(number(rows, self.sizes), number(columns, self.sizes), dtype=torch.float64)

    def diagonal(self, column: Tensor) -> Tensor:
        return torch.diag_embed(column[..., 0])

    def diagonal_of(self, value: Tensor) -> Tensor:
        return value.diagonal(dim1=-2, dim2=-1)[..., None]

    def complex_part(self, value: Tensor, pairing: str) -> Tensor:
        other = partners(value.shape[-1], pairing)
        one = torch.eye(len(other), dtype=torch.float64)
        swapped = value[..., other, :][..., other]
        return 0.5 * (one * (value + swapped) + one[other] * (value - swapped))


class TorchCalculus(TorchArithmetic, Calculus[Tensor]):
    """Values at one well-conditioned random point; or at one ``beside`` it, by so little relatively."""

    def __init__(self, sizes: Sizes, seed: int, beside: float = 0.0) -> None:
        super().__init__(sizes)
        self.generator = torch.Generator().manual_seed(seed)
        self.variables: dict[str, Tensor] = {}
        self._beside = beside

    def variable(self, variable: Variable) -> Tensor:
        if variable.name not in self.variables:
            value = self._random(variable)
            scale = 1 + self._beside * (1 + len(self.variables))  # of its own, so that nothing moves along a symmetry
            self.variables[variable.name] = value if variable.kind == "orthogonal" else scale * value
        return self.variables[variable.name]

    def _random(self, variable: Variable) -> Tensor:
        """Orthonormal columns, disturbed; skew and symmetric parts where the kind asks for them."""
        rows, columns = numbers(variable.shape, self.sizes)
        if variable.kind in SPREAD:
            value = self._spread(basis(variable.kind, rows, columns), rows, columns)
            return value.abs() if variable.kind == "positive" else value
        draw = torch.randn(2, rows, columns, generator=self.generator, dtype=torch.float64)
        frame = torch.linalg.qr(draw[0].mT).Q.mT if columns > rows else torch.linalg.qr(draw[0]).Q
        if variable.kind == "orthogonal":
            return frame
        value = frame + 0.3 * draw[1]
        if variable.kind in ("symmetric", "skew"):
            return value + value.mT if variable.kind == "symmetric" else value - value.mT
        return value

    def _spread(self, units: list[Unit], rows: int, columns: int) -> Tensor:
        """Coefficients of size 0.3 to 0.7 with random signs: these kinds are divided by entry for entry, and so is 1 + w."""
        draw = torch.rand(2, len(units), generator=self.generator, dtype=torch.float64)
        coefficients = (0.3 + 0.4 * draw[0]) * torch.where(draw[1] < 0.5, -1.0, 1.0)
        space = torch.tensor([integers(unit, rows, columns) for unit in units], dtype=torch.float64)
        return torch.einsum("k,kij->ij", coefficients, space)

    def apply(self, formula: Formula, values: Mapping[str, Tensor]) -> Tensor:
        return Evaluation(self, values)(formula.expression)

    def pair(self, left: Tensor, right: Tensor) -> Tensor:
        return (left * right).sum().reshape(1, 1)

    def inverse_of(self, operator: Callable[[Values[Tensor]], Values[Tensor]], like: Values[Tensor]) -> Tensor:
        total = sum(value.numel() for value in like.values())
        units = torch.eye(total, dtype=torch.float64)
        images = operator(self._parted(units, like))
        stacked = [image.expand(total, *like[key].shape).flatten(1) for key, image in images.items()]
        return self.inverse(torch.cat(stacked, dim=1).mT)

    def apply_inverse(self, inverse: Tensor, given: Values[Tensor]) -> Values[Tensor]:
        column = inverse @ torch.cat([value.flatten() for value in given.values()])
        return {key: value[0] for key, value in self._parted(column[None], given).items()}

    def _parted(self, rows: Tensor, like: Values[Tensor]) -> Values[Tensor]:
        """Each row as matrices in the shapes of ``like``, the rows stacked."""
        pieces = rows.split([value.numel() for value in like.values()], dim=1)
        return {key: piece.reshape(-1, *value.shape) for (key, value), piece in zip(like.items(), pieces, strict=True)}

    def derivative(
        self, function: Callable[[Values[Tensor]], Values[Tensor]], at: Values[Tensor], direction: Values[Tensor]
    ) -> Values[Tensor]:
        time = torch.zeros((), dtype=torch.float64, requires_grad=True)
        moved = {name: value + time * direction[name] if name in direction else value for name, value in at.items()}
        return {key: _reverse_twice(value, time) for key, value in function(moved).items()}


def _reverse_twice(value: Tensor, time: Tensor) -> Tensor:
    """d value / d time by differentiating the pullback, which is linear in its cotangent."""
    if not value.requires_grad:
        return torch.zeros_like(value)
    cotangent = torch.zeros_like(value, requires_grad=True)
    (pullback,) = torch.autograd.grad(value, time, cotangent, create_graph=True, allow_unused=True)
    if pullback is None or not pullback.requires_grad:
        return torch.zeros_like(value)
    (out,) = torch.autograd.grad(pullback, cotangent, create_graph=True, allow_unused=True)
    return torch.zeros_like(value) if out is None else out


def check_autodiff(geometry: Geometry, statement: Statement) -> LevelResult:
    """Tested at a random point: relative difference of the sides below the tolerance.

    A point may be badly conditioned by chance, and what is true then fails by rounding: false is what fails at each of a few.
    """
    sizes = assign_sizes(geometry, 3, 5)
    scope = sizes_text(sizes)
    found: float | None = None
    noise = False
    for attempt in range(POINTS):
        seed = generator("autodiff", geometry.name, statement.name, *([attempt] if attempt else [])).getrandbits(32)
        try:
            differences = _differences(geometry, statement, TorchCalculus(sizes, seed))
            worst = _largest(differences)
            if worst < TOLERANCE:  # not for NaN
                text = f"relative difference below {TOLERANCE:g}"
                return LevelResult(Level.AUTODIFF, Outcome.TESTED, scope, text, worst)
            noise = noise or _is_noise(
                differences, _differences(geometry, statement, TorchCalculus(sizes, seed, BESIDE))
            )
        except torch.linalg.LinAlgError:
            continue
        found = worst
    if found is None:
        return no_inverse(geometry, Level.AUTODIFF, scope)
    if noise:
        text = f"rounding: the difference changes as a whole where the point moves by {BESIDE:g}"
        return LevelResult(Level.AUTODIFF, Outcome.UNDECIDED, scope, text, found)
    return LevelResult(Level.AUTODIFF, Outcome.FALSE, scope, f"relative difference above {TOLERANCE:g}", found)


def _differences(geometry: Geometry, statement: Statement, calculus: TorchCalculus) -> list[Tensor]:
    """The differences of the sides, each relative to the largest entry of the two."""
    reading, out = Reading(calculus, geometry), []
    for left, right in statement.sides(reading, *reading.bind(statement.roles)):
        left, right = left.detach(), right.detach()
        out.append((left - right) / max(1.0, left.abs().max().item(), right.abs().max().item()))
    return out


def _largest(differences: list[Tensor]) -> float:
    worst = 0.0
    for difference in differences:
        size = difference.abs().max().item()
        worst = size if not size <= worst else worst  # also for NaN
    return worst


def _is_noise(here: list[Tensor], beside: list[Tensor]) -> bool:
    """Whether differences are those of rounding: what is truly there changes as little as the point does."""
    change = _largest([a - b for a, b in zip(here, beside, strict=True)])
    return change > 0.1 * _largest(here)  # not for NaN
