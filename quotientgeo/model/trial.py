"""One set of random elements for all blocks and shifts, and what the outputs do when chosen ones of them act."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from quotientgeo.errors import NonFiniteLossError
from quotientgeo.groups import GL
from quotientgeo.model.blocks import GroupBlock, PairBlock
from quotientgeo.model.fields import Fields
from quotientgeo.model.geometries import groups_of
from quotientgeo.model.inventory import large_tables
from quotientgeo.model.onesided import one_sided
from quotientgeo.model.orbit import act, identities, random_elements
from quotientgeo.model.probe import Probe
from quotientgeo.model.scales import LAST_BITS, Scales, distances
from quotientgeo.model.stacks import DeclaredStack, Element, PairStack

if TYPE_CHECKING:
    from quotientgeo.model.graph import SymmetryGraph

CONDITION = 10.0  # of the random elements
LARGEST_SCALE = 2.0  # their determinant is not one: each is scaled by a factor between this and its inverse
NEARBY = 0.01  # relative distance of the second point at which symmetries are tested
DRAWS = 2  # of changes in the last bits

Params = dict[str, Tensor]


class Trial:
    """Blocks and shifts of a graph at one point, ``base`` (float64, by name), each with its own random element.

    reference: the outputs at ``base``. scales: what their changes are divided by. kinds: of all blocks and shifts, by name.
    rounding: as ``Scales.of`` wants it, from a trial close by; None to find it here.
    """

    def __init__(self, graph: SymmetryGraph, probe: Probe, seed: int, base: Params, rounding: Params | None = None):
        self.graph, self.probe, self.seed = graph, probe, seed
        # through the same operations as every motion: another layout in memory would be another rounding
        self.base = act(graph, base, identities(graph))
        self.kinds = {b.name: b.kind for b in graph.blocks} | {s.name: s.kind for s in graph.shifts}
        generator = torch.Generator().manual_seed(seed)
        self.elements = _rescaled(graph, random_elements(graph, generator, CONDITION), generator)
        self.amounts = {
            name: torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
            for name, value in sorted(graph.translations.amounts(self.base).items())
        }
        with torch.no_grad():
            self.reference = self._outputs(self.base)
        bad = [name for name, tensor in self.reference.items() if bool(torch.isnan(tensor).any())]
        if bad:
            raise NonFiniteLossError(
                f"the model returns NaN on this batch ({', '.join(bad)}), in float64 and before any move: look for NaN in its "
                "weights and inputs, and for a loss over no labels at all"
            )
        self.rounding = self._rounding() if rounding is None else rounding
        self.scales = Scales.of(self.reference, self.rounding)

    def nearby(self) -> Trial:
        """The same elements at weights close by, where nothing is zero or one by chance.

        Factors move by G + e U (V' G) and H + e U (V' H) with random U, V, so that zero rows (a fresh bias) take part and the
        gauge does not matter; trained entries of the rest move by w (1 + e u), so that exact zeros stay zero, as they do in a
        measure. Declared blocks move likewise, see ``_shaken``. Large embedding tables, whose rows are inputs like any other,
        stay: another copy would be the largest of all.
        """
        generator = torch.Generator().manual_seed(self.seed + 2)
        kept = large_tables(self.graph.model)
        params = {name: w if name in kept else self._rescaled(name, w, generator) for name, w in self.base.items()}
        for stack in self.graph.stacks():
            if isinstance(stack, PairStack):
                factors = [_mixed_rows(factor, generator) for factor in stack.read(params)]
            else:
                factors = _shaken(stack, stack.read(params), generator)
            params = stack.write(params, *factors)
        return Trial(self.graph, self.probe, self.seed, params, self.rounding)

    def _rounding(self) -> Params:
        """The largest absolute change of each output entry when every weight changes in its last bits, in DRAWS tries."""
        generator = torch.Generator().manual_seed(self.seed + 3)
        found = {name: torch.zeros_like(tensor) for name, tensor in self.reference.items()}
        kept = large_tables(self.graph.model)
        with torch.no_grad():
            for _ in range(DRAWS):
                params = {name: w if name in kept else _last_bits(w, generator) for name, w in self.base.items()}
                for name, tensor in self._outputs(params).items():
                    seen = distances(tensor, self.reference[name]) if name in found else None
                    if seen is not None:
                        found[name] = torch.maximum(found[name], seen)
        return found

    def _rescaled(self, name: str, w: Tensor, generator: torch.Generator) -> Tensor:
        parameter = self.graph.parameters[name]
        if not parameter.requires_grad or not parameter.is_floating_point():
            return w
        u = 2 * torch.rand(w.shape, generator=generator, dtype=torch.float64) - 1
        return w * (1 + NEARBY * (u * self.graph.rest_mask(name)).to(w.device))

    def _outputs(self, params: Params) -> Params:
        return self.probe(self.graph.with_aliases(params), self.seed)

    def noise(self, *, random_forward: bool) -> float:
        """Relative difference of two runs at the same parameters.

        ``random_forward``: a forward pass that may draw numbers gets the same ones in both; otherwise others must not matter.
        """
        with torch.no_grad():
            seed = self.seed if random_forward else self.seed + 1
            return self.scales.change(self.probe(self.graph.with_aliases(self.base), seed), rounding=False)

    def residuals(self, names: Sequence[str], tolerance: float) -> dict[str, tuple[float, int]]:
        """Per block its residual and how many others moved with it: all at once, then halves of what does not pass."""
        if not names:
            return {}
        residual = self.residual(names)
        if residual <= tolerance or len(names) == 1:
            return dict.fromkeys(names, (residual, len(names) - 1))
        half = len(names) // 2
        return self.residuals(names[:half], tolerance) | self.residuals(names[half:], tolerance)

    def residual(self, names: Sequence[str]) -> float:
        """Relative change of the outputs when these blocks and shifts move by their elements."""
        with torch.no_grad():
            params = act(self.graph, self.base, {n: self.elements[n] for n in names if n in self.elements})
            params = self.graph.translations.apply(params, {n: self.amounts[n] for n in names if n in self.amounts})
            return self.scales.change(self._outputs(params))

    def controls(self) -> dict[str, float | None]:
        """Per pair, |d outputs / d A| at A = I of the motion of G alone, relative to the outputs; from one backward pass of a
        random combination of them. Of a declared block see ``one_sided``; of a shift the motion of its first leg alone; of one
        without other parts, see ``_borrowed``.
        """
        stacks, leaves = self.graph.stacks(), []
        amounts = {name: torch.zeros_like(t) for name, t in self.amounts.items()}
        params = self.base
        for stack in stacks:
            if isinstance(stack, PairStack):
                A = torch.eye(stack.h).expand(len(stack), -1, -1).to(self.base[stack.names[0]]).clone()
                leaves.append([A.requires_grad_()])
                params = stack.act(params, A, sides="G")
            else:
                leaves.append([factor.detach().clone().requires_grad_() for factor in stack.read(params)])
                params = stack.write(params, *leaves[-1])
        for t in amounts.values():
            t.requires_grad_()
        params = self.graph.translations.apply(params, amounts, alone=True)
        combination = self.scales.combination(self._outputs(params), torch.Generator().manual_seed(self.seed + 1))
        if not combination.requires_grad:
            return self._finite_controls()
        inputs = [leaf for own in leaves for leaf in own] + list(amounts.values())
        gradients = iter(torch.autograd.grad(combination, inputs, allow_unused=True, materialize_grads=True))
        found: dict[str, float | None] = {}
        for stack, own in zip(stacks, leaves, strict=True):
            slopes = [next(gradients) for _ in own]
            if isinstance(stack, PairStack):
                powers = slopes[0].flatten(1).norm(dim=1).tolist()
            else:
                powers = one_sided(stack, [leaf.detach() for leaf in own], slopes, self.seed)
            blocks: tuple[GroupBlock, ...] = stack.blocks
            found |= {block.name: power for block, power in zip(blocks, powers, strict=True)}
        found |= {name: float(g.norm()) for name, g in zip(amounts, gradients, strict=True)}
        return found | self._borrowed(found)

    def _finite_controls(self) -> dict[str, float | None]:
        """The same from finite one-sided motions, one forward pass each, where the outputs carry no gradient."""
        found: dict[str, float | None] = {}
        with torch.no_grad():
            for stack in self.graph.stacks():
                for block in stack.blocks:
                    own = {block.name: self.elements[block.name]}
                    changes = [
                        self.scales.change(self._outputs(stack.moved(self.base, own, sides=(side,))))
                        for side in (("G",) if isinstance(stack, PairStack) else stack.sides)
                    ]
                    found[block.name] = max(changes)
            for name, t in self.amounts.items():
                params = self.graph.translations.apply(self.base, {name: t}, alone=True)
                found[name] = self.scales.change(self._outputs(params))
        return found | self._borrowed(found)

    def _borrowed(self, found: dict[str, float | None]) -> dict[str, float | None]:
        """Controls of the shifts of one leg and no compensator: that of a carrying block; of one that nobody carries none, or
        zero where the outputs do not depend on it even by rounding, since then the reason may be another than the symmetry."""
        borrowed: dict[str, float | None] = {}
        for shift in self.graph.shifts:
            if not shift.compensators and len(shift.legs) == 1:
                carried = [found[name] or 0.0 for name in self.graph.carriers(shift)]
                borrowed[shift.name] = max(carried) if carried else (None if found[shift.name] else 0.0)
        return borrowed


def _rescaled(graph: SymmetryGraph, elements: dict[str, Element], generator: torch.Generator) -> dict[str, Element]:
    """Elements of GL times a random number each: drawn with determinant one, they would pass for their own subgroup."""

    def rescaled(A: Tensor) -> Tensor:
        return A * LARGEST_SCALE ** float(2 * torch.rand((), generator=generator) - 1)

    found = {}
    for name, parts in elements.items():
        block = graph.block(name)
        own = [block.group] if isinstance(block, PairBlock) else groups_of(block.geometry)
        found[name] = tuple(rescaled(A) if isinstance(group, GL) else A for group, A in zip(own, parts, strict=True))
    return found


def _shaken(stack: DeclaredStack, factors: Sequence[Tensor], generator: torch.Generator) -> list[Tensor]:
    """Factors (B, rows, columns) moved by e C X with a random map C that commutes with the group, so that the gauge does not
    matter. A factor without such maps moves by e |X| / sqrt(entries) in every entry, and stays where a GL acts in the block:
    what is little in one gauge of that is much in another."""
    fields = Fields.of(stack)
    linear = any(group.element_kind == "invertible" for group in stack.groups)
    drawn = fields.draw(tuple(factors), generator)
    moved = []
    for kind, x, tangent in zip(fields.kinds, factors, drawn, strict=True):
        if kind is None and not (linear and fields.any):
            size = x.flatten(1).norm(dim=1) / x[0].numel() ** 0.5
            size = torch.where(size > 0, size, 1.0)[:, None, None]
            tangent = size * torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
        moved.append(x + NEARBY * tangent)
    return moved


def _last_bits(w: Tensor, generator: torch.Generator) -> Tensor:
    if not w.is_floating_point():
        return w
    u = 2 * torch.rand(w.shape, generator=generator, dtype=torch.float64) - 1
    return w * (1 + LAST_BITS * u.to(w.device))


def _mixed_rows(factor: Tensor, generator: torch.Generator) -> Tensor:
    """X + e U (V' X) for factors X (B, n, h), with U and V (n, h) Gaussian; commutes with the group, which acts on columns."""
    n, h = factor.shape[-2:]
    U, V = (torch.randn((n, h), generator=generator, dtype=torch.float64).to(factor) for _ in range(2))
    return factor + (NEARBY / (n * h) ** 0.5) * (U @ (V.mT @ factor))
