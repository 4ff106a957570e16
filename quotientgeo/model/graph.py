"""The symmetries of one model as a graph: blocks, the parameters they see, and what each scalar parameter belongs to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

import networkx as nx
from torch import Tensor, nn

from quotientgeo.errors import ArgumentError, BlockError
from quotientgeo.model.architectures.registry import attention_blocks, inside
from quotientgeo.model.architectures.unknown import attention_like, unknown_architecture
from quotientgeo.model.blocks import Block, DeclaredBlock, GroupBlock, Leg, PairBlock, ShiftBlock, acting
from quotientgeo.model.claims import Claims
from quotientgeo.model.coverage import Coverage, TensorCoverage
from quotientgeo.model.exclusive import exclusive
from quotientgeo.model.geometries import group_text, require_one_offset
from quotientgeo.model.inventory import inventory
from quotientgeo.model.orbit import moved_state
from quotientgeo.model.shifts import Translations
from quotientgeo.model.stacks import DeclaredStack, PairStack, build_stacks
from quotientgeo.model.verify import TOLERANCE, Forward, VerificationReport, run_verification

SymmetriesName = Literal["attention", "paper", "none"]
SYMMETRIES: tuple[str, ...] = get_args(SymmetriesName)
Params = Mapping[str, Tensor]


def symmetry_graph(model: nn.Module, symmetries: SymmetriesName = "attention") -> SymmetryGraph:
    """The blocks of a model whose architecture is known. Nothing is verified yet: see ``SymmetryGraph.verify``.

    symmetries: "attention": GL(h) per head for query-key and value-output; b_Q is a row of the query factor, b_K is frozen, b_V
    folded into b_O and frozen, both as free translations (``ShiftBlock``).
    "paper": the same groups with the biases as da Silva, Dangel and Oore (ICML 2025) have them: b_Q a row of the query factor,
    b_K of the key factor, b_V of the value factor; b_O is in the rest, nothing is frozen, and there are no translations.
    "none": no block; every parameter is in the rest.
    "attention" and "paper" are different measures wherever b_K or b_V exists: their values cannot be compared.

    Raises ``UnknownArchitectureError``, listing attention-like modules and an example, where no rule describes the model. To
    start without a rule: ``SymmetryGraph(model)`` and ``graph.add(PairBlock(...))``.
    """
    if symmetries not in SYMMETRIES:
        raise ArgumentError(f"symmetries must be one of {', '.join(map(repr, SYMMETRIES))}, got {symmetries!r}")
    if symmetries == "none":
        return SymmetryGraph(model)
    inventory(model)  # refuses what is no model
    pairs, shifts, found = attention_blocks(model, biases_as_rows=symmetries == "paper")
    if not found:
        raise unknown_architecture(model)
    graph = SymmetryGraph(model, uncovered=[m.name for m in attention_like(model) if not inside(m.name, found)])
    seen: set[Any] = set()
    blocks: list[PairBlock | ShiftBlock] = [*pairs, *shifts]
    for block in blocks:
        block = block.renamed(graph.names)
        legs = (block.G, block.H) if isinstance(block, PairBlock) else (block.legs, block.compensators)
        if legs not in seen:  # parameters shared by several modules are one tensor: their block acts once
            seen.add(legs)
            graph.add(block)
    return graph


class SymmetryGraph:
    """Blocks and shifts of one model; it starts with none.

    model: the model, never changed. parameters: its parameters by name, each tensor in memory once. names: every name, of
    tied parameters too, to that one name. aliases: further names of ``named_parameters()`` for the same memory.
    uncovered: attention-like modules that no rule describes.
    """

    def __init__(self, model: nn.Module, *, uncovered: Iterable[str] = ()):
        self.model = model
        self.uncovered = tuple(uncovered)
        found = inventory(model)
        self.parameters, self.names, self.aliases = found.parameters, found.one_name, found.aliases
        self._shapes = found.shapes
        self._claims = Claims(self._shapes)
        self._blocks: dict[str, GroupBlock] = {}
        self._shifts: dict[str, ShiftBlock] = {}
        self._stacks: list[PairStack | DeclaredStack] | None = None

    @property
    def blocks(self) -> tuple[GroupBlock, ...]:
        """Pair blocks and declared blocks in the order in which they were added."""
        return tuple(self._blocks.values())

    @property
    def shifts(self) -> tuple[ShiftBlock, ...]:
        """Free translations in the order in which they were added."""
        return tuple(self._shifts.values())

    def add(self, block: Block) -> None:
        """Add a block of your own, with any legs; verified like every other.

        Raises ``BlockError`` where a leg does not fit the model (unknown tensor, not a parameter, index out of range, another
        size than the group's or the geometry's) or an entry belongs to another block already; the graph is then unchanged.
        """
        if not isinstance(block, (PairBlock, DeclaredBlock, ShiftBlock)):
            raise BlockError(
                f"graph.add takes a PairBlock, a DeclaredBlock or a ShiftBlock, got {type(block).__name__}"
            )
        if block.name in self._blocks or block.name in self._shifts or block.name in self.names:
            raise BlockError(
                f"the name {block.name!r} is taken: block names must differ from each other and from parameters"
            )
        block = block.renamed(self.names)
        self._refuse_buffers(block)
        if not isinstance(block, ShiftBlock):
            require_one_offset(acting(block), self._shapes)
        self._claims.add(block)
        if isinstance(block, ShiftBlock):
            self._shifts[block.name] = block
        else:
            self._blocks[block.name] = block
        self._stacks = None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters."""
        return {name: tuple(shape) for name, shape in self._shapes.items()}

    def block(self, name: str) -> GroupBlock:
        """The pair block or declared block of this name."""
        if name not in self._blocks:
            raise BlockError(f"no block is called {name!r}")
        return self._blocks[name]

    def stacks(self) -> list[PairStack | DeclaredStack]:
        """All blocks, those of one shape, group and geometry as one batched tensor per factor.

        Raises ``BlockError`` where a leg is "carried" but no shift block frees its entries.
        """
        if self._stacks is None:
            for block, leg in self._bound_carried():
                raise BlockError(
                    f"block {block.name!r} carries a leg on {leg.tensor!r} that no ShiftBlock frees: add the ShiftBlock, "
                    "or make the leg a row of the factor with role='factor'"
                )
            self._stacks = build_stacks(self.blocks, self._shapes, self.aliases)
        return self._stacks

    def restricted_to(self, names: Collection[str]) -> SymmetryGraph:
        """The graph with only the named blocks and shifts.

        A leg that was carried because of a shift that is left out becomes a row of its factor, which is always right.
        """
        if not isinstance(names, Iterable):
            raise BlockError(f"restricted_to takes names of blocks and shifts, got {names!r}")
        names = {names} if isinstance(names, str) else set(names)
        unknown = sorted(map(str, names - {*self._blocks, *self._shifts}))
        if unknown:
            raise BlockError(f"no block is called {', '.join(map(repr, unknown))}")
        part = SymmetryGraph(self.model, uncovered=self.uncovered)
        for shift in self.shifts:
            if shift.name in names:
                part.add(shift)
        for block in self.blocks:
            if block.name in names:
                part.add(block.with_legs(partial(part._as_row, block)))
        return part

    def verify(
        self,
        batch: Any,
        forward: Forward | None = None,
        *,
        tolerance: float = TOLERANCE,
        seed: int = 0,
        allow_training_mode: bool = False,
    ) -> VerificationReport:
        """Whether every block and shift leaves the outputs on ``batch`` alone, in float64, by a random element each.

        batch: a mapping (``model(**batch)``), a tuple or list (``model(*batch)``) or a tensor. forward: ``forward(model,
        batch)`` instead; every floating tensor in what it returns is compared, each entry on its own scale. The model is not
        changed. tolerance: relative change of an entry. allow_training_mode: with one dropout mask, drawn from ``seed``; dropped
        attention weights do not sum to one, so value biases cannot be folded then. See ``VerificationReport``; ``.require()``
        raises where something failed.
        """
        with exclusive(self.model):
            return run_verification(
                self, batch, forward, tolerance=tolerance, seed=seed, allow_training_mode=allow_training_mode
            )

    def move(self, seed: int = 0, condition: float = 10.0, *, translations: float = 0.0) -> dict[str, Any]:
        """A state dict of the same function elsewhere on its orbit, with the keys, shapes and dtypes of the model's own.

        Every pair block moves by its own A = U D V with det 1 and cond(A) = ``condition`` (1: rotations), computed in float64.
        ``translations``: standard deviation of the amounts by which the shifts move (0: not at all). The model is not changed.
        """
        return moved_state(self, seed, condition, translations)

    def canonicalise_shifts(self, params: Params) -> dict[str, Tensor]:
        """The same function with every free translation at zero: value biases folded into output biases, key biases zero."""
        return self.translations.canonical(params)

    @property
    def translations(self) -> Translations:
        """The shifts on tensors."""
        return Translations(self.shifts, self._shapes, self.aliases)

    def with_aliases(self, params: Params) -> dict[str, Tensor]:
        """``params`` with the further names of shared memory filled in from the one name."""
        more = {alias: params[name] for name, others in self.aliases.items() if name in params for alias in others}
        return dict(params) | more

    @property
    def frozen(self) -> dict[str, tuple[Tensor | None, str]]:
        """Per parameter, the entries that a translation makes redundant (a bool mask, None for all of them) and why."""
        found: dict[str, tuple[Tensor | None, str]] = {}
        for name, reasons in self._frozen_reasons().items():
            mask = self._claims.mask("shift", name)
            found[name] = (None if bool(mask.all()) else mask, "; ".join(reasons))
        return found

    def frozen_reasons(self) -> dict[str, str]:
        """Per parameter with frozen entries, why they are frozen, and how many they are where not all."""
        return {
            name: reason if mask is None else f"{int(mask.sum())} of {mask.numel()} entries: {reason}"
            for name, (mask, reason) in self.frozen.items()
        }

    def factor_mask(self, name: str) -> Tensor:
        """Entries of a parameter that are rows of a block's factor; bool, on the CPU."""
        return self._claims.mask("factor", self._one_name(name))

    def rest_mask(self, name: str) -> Tensor:
        """Entries of a parameter in no block and not frozen; none for a further name of shared memory."""
        one = self._one_name(name)
        rest = ~(self.factor_mask(one) | self._claims.mask("shift", one))
        return rest & (name not in self.aliases.get(one, ()))

    def coverage(self) -> Coverage:
        """Every scalar parameter in exactly one of: a block, frozen with its reason, the rest."""
        self.stacks()
        reasons = self._frozen_reasons()
        tensors = {}
        for name, shape in self._shapes.items():
            factor, rest, frozen = self.factor_mask(name), self.rest_mask(name), self._claims.mask("shift", name)
            counts = (int(factor.sum()), int(frozen.sum()), int(rest.sum()))
            tensors[name] = TensorCoverage(shape, *counts, reasons=reasons.get(name, {}))
        kinds = Counter(block.kind or "unnamed kind" for block in self._all)
        redundant = sum(block.dimension(self._shapes) for block in self.blocks)
        redundant += sum(len(shift.bound(self._shapes)[0][0].indices) for shift in self.shifts)
        return Coverage(tensors, dict(kinds), redundant, self.uncovered)

    @property
    def graph(self) -> nx.DiGraph[str]:
        """Block nodes (``node="block"``: kind, layer, head, group, geometry and n, m, h of a pair, sizes of a declared block),
        parameter nodes (``node="parameter"``: shape, storage, tied) and an edge from a block to each parameter that it sees,
        with ``legs``: pairs (side, Leg).

        Sides are "G" and "H" for pair blocks, the factors for declared ones; "shift", "compensator" and "bias" for shifts.
        """
        graph: nx.DiGraph[str] = nx.DiGraph()
        for name, p in self.parameters.items():
            tied = tuple(other for other, one in self.names.items() if one == name != other)
            graph.add_node(
                name, node="parameter", shape=tuple(p.shape), storage=p.untyped_storage().data_ptr(), tied=tied
            )
        for block in self.blocks:
            labels: dict[str, Any] = {"kind": block.kind, "layer": block.layer, "head": block.head}
            labels["geometry"] = _geometry_name(block)
            if isinstance(block, PairBlock):
                labels |= dict(zip("nmh", block.sizes(self._shapes), strict=True)) | {"group": block.group}
            else:
                labels |= {"sizes": block.sizes(self._shapes), "group": group_text(block.geometry)}
            graph.add_node(block.name, node="block", **labels)
            _add_edges(graph, block.name, block.legs)
        for shift in self.shifts:
            h = len(shift.bound(self._shapes)[0][0].indices)
            labels = {"kind": shift.kind, "layer": shift.layer, "head": shift.head, "group": f"translation({h})"}
            graph.add_node(shift.name, node="block", n=1, m=0, h=h, **labels)
            legs = [("shift", leg) for leg in shift.legs]
            for weight, bias in shift.compensators:
                legs += [("compensator", weight), ("bias", Leg(bias))]
            _add_edges(graph, shift.name, legs)
        return graph

    @property
    def _all(self) -> list[Block]:
        return [*self.blocks, *self.shifts]

    def carriers(self, shift: ShiftBlock) -> list[str]:
        """Names of the pair blocks that carry the entries of a shift's first leg."""
        return [name for name in self._claims.owners("carried", shift.bound(self._shapes)[0][0]) if name]

    def _one_name(self, name: str) -> str:
        if name not in self.names:
            raise BlockError(f"the model has no parameter {name!r}")
        return self.names[name]

    def _bound_carried(self) -> Iterable[tuple[GroupBlock, Leg]]:
        for block in self.blocks:
            for _, view in block.bound(self._shapes):
                if view.leg.role == "carried" and "" in self._claims.owners("shift", view):
                    yield block, view.leg

    def _as_row(self, block: GroupBlock, leg: Leg) -> Leg:
        freed = leg.role == "factor" or "" not in self._claims.owners("shift", leg.bound(self._shapes, block.name))
        return leg if freed else replace(leg, role="factor")

    def _frozen_reasons(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for shift in self.shifts:
            leg = shift.bound(self._shapes)[0][0]
            counts = found.setdefault(leg.leg.tensor, {})
            counts[shift.reason] = counts.get(shift.reason, 0) + len(leg.indices)
        return found

    def _refuse_buffers(self, block: Block) -> None:
        legs = [*block.legs] if isinstance(block, ShiftBlock) else [leg for _, leg in block.legs]
        buffers = dict(self.model.named_buffers())
        for leg in legs:
            if leg.tensor in buffers:
                raise BlockError(
                    f"block {block.name!r}: {leg.tensor!r} is a buffer, not a parameter: a group acts on parameters only"
                )


def _geometry_name(block: GroupBlock) -> str | None:
    return None if block.geometry is None else str(block.geometry.name)


def _add_edges(graph: nx.DiGraph[str], block: str, legs: Iterable[tuple[str, Leg]]) -> None:
    for side, leg in legs:
        before = graph.edges[block, leg.tensor]["legs"] if graph.has_edge(block, leg.tensor) else ()
        graph.add_edge(block, leg.tensor, legs=(*before, (side, leg)))
