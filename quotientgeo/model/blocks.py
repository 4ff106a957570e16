"""What a symmetry block is: views of parameters (legs) and the group that acts on them.

A pair block has two sides of legs, G and H; an element A acts G -> G A^-1, H -> H A^T, which leaves W = G H' alone. A declared
block has a side for each factor of a declared geometry, whose own action moves them. A shift block is a free
translation of a vector, possibly compensated in a bias. Blocks are plain declarations: they hold names and integers, no tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field, replace
from typing import Any

from quotientgeo.errors import BlockError
from quotientgeo.groups import GL
from quotientgeo.model.geometries import (
    Geometry,
    at_parameters,
    bound_sizes,
    factors_of,
    free_rows,
    group_text,
    groups_of,
    listed,
    require_geometry,
)
from quotientgeo.model.legs import BoundLeg, Leg, Shapes, checked_legs, renamed_legs

__all__ = ["Block", "BoundLeg", "DeclaredBlock", "GroupBlock", "Leg", "PairBlock", "Shapes", "ShiftBlock", "acting"]


@dataclass(frozen=True)
class PairBlock:
    """A pair of factors on which ``group`` acts by G -> G A^-1, H -> H A^T; the function uses only W = G H'.

    G (n, h) and H (m, h) are the "factor" legs of each side stacked in order. ``kind``, ``layer`` and ``head`` only label
    the block. ``geometry``: a declared geometry of two factors, which then says how the group acts and is what a measure
    moves along: the block is ``DeclaredBlock(name, geometry, {first factor: G, second factor: H})``.
    """

    name: str
    group: GL
    G: tuple[Leg, ...]
    H: tuple[Leg, ...]
    kind: str = ""
    layer: int | None = None
    head: int | None = None
    geometry: Any = field(default=None, hash=False)

    def __post_init__(self) -> None:
        _require_name("block", self.name)
        for side in ("G", "H"):
            legs = checked_legs(getattr(self, side), f"block {self.name!r}, side {side}")
            object.__setattr__(self, side, legs)
            if not any(leg.role == "factor" for leg in legs):
                raise BlockError(f"block {self.name!r}: side {side} has no leg with role 'factor'")
        if self.geometry is not None:
            self._require_own_geometry()
        elif not isinstance(self.group, GL) or not isinstance(self.group.size, int):
            given = str(self.group) if isinstance(self.group, GL) else repr(self.group)
            raise BlockError(
                f"block {self.name!r}: the group must be a GL with a size in numbers, such as GL(64), got {given}"
            )

    def _require_own_geometry(self) -> None:
        require_geometry(self.geometry, f"block {self.name!r}")
        factors, groups = factors_of(self.geometry), groups_of(self.geometry)
        if len(factors) != 2:
            raise BlockError(
                f"block {self.name!r}: a pair takes a geometry of two factors, {self.geometry.name} has {len(factors)} "
                f"({', '.join(factors)}): use DeclaredBlock"
            )
        if len(groups) != 1 or type(groups[0]) is not type(self.group) or not isinstance(self.group.size, int):
            raise BlockError(
                f"block {self.name!r}: {self.geometry.name} is acted on by {group_text(self.geometry)}, so the block's group "
                f"must be that with a size in numbers, got {self.group}"
            )

    @property
    def h(self) -> int:
        return int(self.group.size)

    @property
    def legs(self) -> tuple[tuple[str, Leg], ...]:
        """All legs as (side, leg), the G side first."""
        return tuple(("G", leg) for leg in self.G) + tuple(("H", leg) for leg in self.H)

    def declared(self, geometry: Geometry) -> DeclaredBlock:
        """The block of the same legs that a geometry of two factors moves, whatever is this block's own."""
        first, second = factors_of(geometry)
        legs = {first: self.G, second: self.H}
        return DeclaredBlock(self.name, geometry, legs, self.kind, self.layer, self.head)

    def bound(self, shapes: Shapes) -> list[tuple[str, BoundLeg]]:
        """All legs resolved against parameter shapes; ``BlockError`` where one does not fit or sees another width than h."""
        if self.geometry is not None:
            return self._bound_by_geometry(shapes)
        bound = [(side, leg.bound(shapes, self.name)) for side, leg in self.legs]
        for side, view in bound:
            if view.width != self.h:
                raise BlockError(
                    f"block {self.name!r}, side {side}, leg on {view.leg.tensor!r}: the leg sees {view.width} indices "
                    f"on axis {view.axis} but {self.group} acts on {self.h}"
                )
        return bound

    def _bound_by_geometry(self, shapes: Shapes) -> list[tuple[str, BoundLeg]]:
        block = self.declared(self.geometry)
        sides = dict(zip(factors_of(self.geometry), "GH", strict=True))
        bound = [(sides[side], view) for side, view in block.bound(shapes)]
        (group,), sizes = groups_of(self.geometry), block.sizes(shapes)
        acting_on = group.numeric_shape(sizes=sizes)
        if acting_on != self.group.numeric_shape():
            raise BlockError(
                f"block {self.name!r}: its group is {self.group}, but by its legs {self.geometry.name} is acted on by "
                f"elements of shape {acting_on}"
            )
        return bound

    def sizes(self, shapes: Shapes) -> tuple[int, int, int]:
        """(n, m, h): rows of G, rows of H and their common width."""
        rows = {"G": 0, "H": 0}
        for side, view in self.bound(shapes):
            rows[side] += view.rows if view.leg.role == "factor" else 0
        return rows["G"], rows["H"], self.h

    def dimension(self, shapes: Shapes) -> int:
        """Dimension of the group."""
        return self.group.dimension()

    def with_legs(self, change: Callable[[Leg], Leg]) -> PairBlock:
        """The same block with every leg changed."""
        G, H = (tuple(map(change, legs)) for legs in (self.G, self.H))
        return replace(self, G=G, H=H)

    def renamed(self, names: Mapping[str, str]) -> PairBlock:
        """The same block with every tensor name looked up in ``names`` (tied parameters under their one name)."""
        return replace(self, G=renamed_legs(self.G, names), H=renamed_legs(self.H, names))


@dataclass(frozen=True)
class DeclaredBlock:
    """Parameters that are the factors of a declared geometry, which says how its group moves them and how far.

    name:     of the block; differs from the names of other blocks and of parameters.
    geometry: what ``qg.derive(symmetry, metric)`` returned; its certificate must hold.
    legs:     factor -> one ``Leg`` or several, whose rows are stacked in order. A leg gives the axis of its parameter that is
              the factor's columns; the other axes are the rows. A factor declared with one column also takes a vector: its
              entries are the rows. Kept as pairs (factor, leg).
    kind, layer, head: labels; the kind is the geometry's name unless told.
    parameters: values of the metric's parameters, such as {"eps": 0.1}, where it has some; ``geometry`` is kept at these.

    The sizes that the declaration names are bound by the shapes of the factors; each name must stand for one number. A leg's
    ``offset`` and an action that is affine in its factor both say that the parameter is the factor minus a constant: only one
    of them may. A leg with role "carried" is allowed where the factor's number of rows is a name that nothing else has.
    """

    name: str
    geometry: Any = field(hash=False)
    legs: Any
    kind: str = ""
    layer: int | None = None
    head: int | None = None
    parameters: InitVar[Mapping[str, float] | None] = None

    def __post_init__(self, parameters: Mapping[str, float] | None) -> None:
        _require_name("block", self.name)
        where = f"block {self.name!r}"
        if parameters:
            object.__setattr__(self, "geometry", at_parameters(self.geometry, parameters, where))
        require_geometry(self.geometry, where)
        object.__setattr__(self, "kind", self.kind or self.geometry.name)
        given = self.legs if isinstance(self.legs, Mapping) else _by_side(self.legs, where)
        factors = factors_of(self.geometry)
        if set(given) != set(factors):
            raise BlockError(
                f"{where}: legs must name the factors of {self.geometry.name}, {', '.join(factors)}; got "
                f"{', '.join(map(str, given)) or 'none'}"
            )
        pairs: list[tuple[str, Leg]] = []
        for factor in factors:
            legs = checked_legs(given[factor], f"{where}, factor {factor}")
            if not any(leg.role == "factor" for leg in legs):
                raise BlockError(f"{where}: factor {factor} has no leg with role 'factor'")
            if any(leg.role == "carried" for leg in legs) and factor not in free_rows(self.geometry):
                raise BlockError(
                    f"{where}: factor {factor} of {self.geometry.name} cannot carry legs along: the group acts on its rows, or "
                    "their number is shared; make them rows of the factor"
                )
            pairs += [(factor, leg) for leg in legs]
        object.__setattr__(self, "legs", tuple(pairs))

    @property
    def factors(self) -> tuple[str, ...]:
        return tuple(factors_of(self.geometry))

    def bound(self, shapes: Shapes) -> list[tuple[str, BoundLeg]]:
        """All legs resolved against parameter shapes; ``BlockError`` naming factor, leg and sizes where one does not fit."""
        bound = self._views(shapes)
        self._sizes(bound)
        return bound

    def sizes(self, shapes: Shapes) -> dict[str, int]:
        """The numbers that the declaration's names of sizes stand for."""
        return self._sizes(self._views(shapes))

    def dimension(self, shapes: Shapes) -> int:
        """Dimension of the product of the groups."""
        sizes = self.sizes(shapes)
        return sum(group.dimension(sizes=sizes) for group in groups_of(self.geometry))

    def with_geometry(self, geometry: Geometry) -> DeclaredBlock:
        """The same legs moved by another geometry of the same factors."""
        return replace(self, geometry=geometry)

    def with_legs(self, change: Callable[[Leg], Leg]) -> DeclaredBlock:
        """The same block with every leg changed."""
        return replace(self, legs=tuple((side, change(leg)) for side, leg in self.legs))

    def renamed(self, names: Mapping[str, str]) -> DeclaredBlock:
        """The same block with every tensor name looked up in ``names`` (tied parameters under their one name)."""
        return self.with_legs(lambda leg: renamed_legs((leg,), names)[0])

    def _views(self, shapes: Shapes) -> list[tuple[str, BoundLeg]]:
        columns = {name: shape[1] for name, shape in factors_of(self.geometry).items()}
        return [(side, leg.bound(shapes, self.name, column=columns[side] == 1)) for side, leg in self.legs]

    def _sizes(self, bound: Iterable[tuple[str, BoundLeg]]) -> dict[str, int]:
        where = f"block {self.name!r}"
        names: dict[str, list[str]] = {}
        found: dict[str, tuple[int, int]] = {}
        for side, view in bound:
            names.setdefault(side, []).append(view.leg.tensor)
            rows, width = found.get(side, (0, view.width))
            if width != view.width:
                raise BlockError(
                    f"{where}, factor {side}: the leg on {view.leg.tensor!r} has {view.width} columns, those before it "
                    f"({listed(names[side][:-1])}) have {width}: legs of a factor are stacked rows"
                )
            found[side] = (rows + (view.rows if view.leg.role == "factor" else 0), width)
        return bound_sizes(self.geometry, found, names, where)


def acting(block: PairBlock | DeclaredBlock) -> PairBlock | DeclaredBlock:
    """The block as its group acts: a pair with a geometry of its own is a declared block."""
    if isinstance(block, PairBlock) and block.geometry is not None:
        return block.declared(block.geometry)
    return block


def _by_side(pairs: Any, where: str) -> dict[str, list[Leg]]:
    """Legs given as pairs (factor, leg), as a block keeps them."""
    found: dict[str, list[Leg]] = {}
    for pair in pairs if isinstance(pairs, (tuple, list)) else ():
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            raise BlockError(f'{where}: legs must be a mapping such as {{"G": Leg(...)}}, got {pairs!r}')
        found.setdefault(pair[0], []).append(pair[1])
    return found


@dataclass(frozen=True)
class ShiftBlock:
    """A free translation: every leg += t (t of width h), and bias -= view(weight) t for each compensator (weight, bias).

    Without compensators the shifted vector has no effect at all (a key bias under softmax). The canonical form is the one
    in which the first leg, a single row, is zero: t = -leg. ``reason`` says, for a reader, why the vector is then frozen.
    """

    name: str
    legs: tuple[Leg, ...]
    compensators: tuple[tuple[Leg, str], ...] = ()
    kind: str = ""
    layer: int | None = None
    head: int | None = None
    reason: str = "a free translation"

    def __post_init__(self) -> None:
        _require_name("shift", self.name)
        object.__setattr__(self, "legs", checked_legs(self.legs, f"shift {self.name!r}"))
        pairs = self.compensators if isinstance(self.compensators, (tuple, list)) else (self.compensators,)
        for pair in pairs:
            if not (isinstance(pair, (tuple, list)) and [type(item) for item in pair] == [Leg, str]):
                raise BlockError(
                    f"shift {self.name!r}: compensators must be pairs (Leg on a weight, name of a bias), got {pair!r}"
                )
        object.__setattr__(self, "compensators", tuple((leg, bias) for leg, bias in pairs))

    def bound(self, shapes: Shapes) -> tuple[list[BoundLeg], list[tuple[BoundLeg, str]]]:
        """Legs and compensators resolved against parameter shapes; ``BlockError`` where one does not fit."""
        legs = [leg.bound(shapes, self.name) for leg in self.legs]
        weights = [(leg.bound(shapes, self.name), bias) for leg, bias in self.compensators]
        if legs[0].rows != 1:
            raise BlockError(
                f"shift {self.name!r}: its first leg must be one row (a vector), it has {legs[0].rows} rows"
            )
        width = legs[0].width
        for view in [*legs, *(weight for weight, _ in weights)]:
            if view.width != width:
                raise BlockError(
                    f"shift {self.name!r}: the leg on {view.leg.tensor!r} sees {view.width} indices, the first leg {width}"
                )
        for weight, bias in weights:
            found = tuple(Leg(bias).bound(shapes, self.name).shape)
            if found != (weight.rows,):
                raise BlockError(
                    f"shift {self.name!r}: bias {bias!r} has shape {found}, "
                    f"but the view of {weight.leg.tensor!r} has {weight.rows} rows"
                )
        return legs, weights

    def renamed(self, names: Mapping[str, str]) -> ShiftBlock:
        """The same block with every tensor name looked up in ``names`` (tied parameters under their one name)."""
        weights = tuple((renamed_legs((leg,), names)[0], names.get(bias, bias)) for leg, bias in self.compensators)
        return replace(self, legs=renamed_legs(self.legs, names), compensators=weights)


GroupBlock = PairBlock | DeclaredBlock
Block = PairBlock | DeclaredBlock | ShiftBlock


def _require_name(what: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise BlockError(f"a {what} needs a name, got {name!r}")
