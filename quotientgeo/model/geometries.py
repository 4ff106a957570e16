"""What a block asks of a declared geometry: its certificate, its numeric groups, and its sizes as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

import torch

from quotientgeo.errors import ArgumentError, BlockError, CertificateError
from quotientgeo.parameters import AtParameters

Shape = tuple[int | str, int | str]
FUNCTIONS = ("action", "vertical", "inner", "momentum", "acceleration", "taylor_1", "taylor_2", "taylor_3", "taylor_4")


class Geometry(Protocol):
    """What ``qg.derive`` returns, as far as models and measures use it."""

    @property
    def name(self) -> str: ...
    @property
    def symmetry(self) -> Any:
        """``groups``: the simple groups of the product, whose elements the action takes first."""

    @property
    def certificate(self) -> Any:
        """``require()`` raises CertificateError unless every claim holds; ``summary`` is one line."""

    def module(self) -> ModuleType:
        """The generated functions of tensors, with FACTORS and NAME."""


def module_of(geometry: Geometry) -> ModuleType:
    """The generated module, the same object every time."""
    return geometry.module()


def require_geometry(geometry: Any, where: str) -> None:
    """``BlockError`` unless this is what ``qg.derive`` gave, ``CertificateError`` unless its certificate holds."""
    missing = [name for name in ("certificate", "symmetry", "name", "module") if not hasattr(geometry, name)]
    if missing or isinstance(geometry, type):
        raise BlockError(f"{where}: geometry must be what qg.derive(symmetry, metric) returned, got {geometry!r}")
    try:
        geometry.certificate.require()
    except CertificateError as error:
        raise CertificateError(f"{where}: {error}") from error
    module = module_of(geometry)
    if getattr(module, "PARAMETERS", ()):
        example = ", ".join(f"{name}=0.1" for name in module.PARAMETERS)
        raise BlockError(
            f"{where}: the metric of {geometry.name} has parameters without a value: take geometry.at({example}), or give a "
            "DeclaredBlock parameters"
        )
    lacking = [name for name in FUNCTIONS if not hasattr(module, name)]
    if lacking:
        raise BlockError(
            f"{where}: the generated module of {geometry.name} lacks {', '.join(lacking)}: generate it again"
        )


def at_parameters(geometry: Any, parameters: Mapping[str, float], where: str) -> Geometry:
    """The geometry at values of its metric's parameters; ``BlockError`` where they are not its parameters."""
    if not callable(getattr(geometry, "module", None)):
        raise BlockError(f"{where}: geometry must be what qg.derive(symmetry, metric) returned, got {geometry!r}")
    try:
        return AtParameters(geometry, parameters)
    except ArgumentError as error:
        raise BlockError(f"{where}: {error}") from error


def factors_of(geometry: Geometry) -> dict[str, Shape]:
    """Factor -> (rows, columns), names or numbers, in the order of the generated functions' arguments."""
    return {name: (rows, columns) for name, (rows, columns) in module_of(geometry).FACTORS.items()}


def groups_of(geometry: Geometry) -> tuple[Any, ...]:
    """The simple groups, in the order of the action's arguments."""
    return tuple(geometry.symmetry.groups)


def group_text(geometry: Geometry) -> str:
    """'GL(h) x GL(k)'."""
    return " x ".join(map(str, groups_of(geometry)))


def free_rows(geometry: Geometry) -> set[str]:
    """Factors whose rows no group acts on and nothing else shares: their size is a name that occurs once."""
    factors = factors_of(geometry)
    taken = [size for group in groups_of(geometry) for size in group.element_shape]
    taken += [size for shape in factors.values() for size in shape]
    return {name for name, (rows, _) in factors.items() if isinstance(rows, str) and taken.count(rows) == 1}


def bound_sizes(
    geometry: Geometry, found: Mapping[str, tuple[int, int]], legs: Mapping[str, Sequence[str]], where: str
) -> dict[str, int]:
    """The numbers that the names of sizes stand for, from the shapes ``found`` of the factors.

    Raises:
        BlockError: a number differs from the declared one, or a name would stand for two; with factor, legs and both sizes.
    """
    sizes: dict[str, int] = {}
    origin: dict[str, str] = {}
    declared = factors_of(geometry)
    spelled = ", ".join(f"{name} ({rows}, {columns})" for name, (rows, columns) in declared.items())
    for name, shape in declared.items():
        for size, number, side in zip(shape, found[name], ("rows", "columns"), strict=True):
            here = f"{side} of factor {name} (legs {listed(legs[name])})"
            if isinstance(size, int):
                if size != number:
                    raise BlockError(f"{where}, factor {name}: {number} {side} from its legs {listed(legs[name])}, but "
                                     f"{size} declared: {spelled}")  # fmt: skip
            elif sizes.setdefault(size, number) != number:
                raise BlockError(
                    f"{where}, factor {name}: {size} = {number} by the {here}, but {size} = {sizes[size]} by the "
                    f"{origin[size]}; declared: {spelled}"
                )
            else:
                origin.setdefault(size, here)
    for group in groups_of(geometry):
        unknown = [size for size in group.element_shape if isinstance(size, str) and size not in sizes]
        if unknown:
            raise BlockError(f"{where}: no factor of {geometry.name} has the size {unknown[0]} of {group}: {spelled}")
    return sizes


def listed(names: Iterable[str]) -> str:
    """'a', 'b'."""
    return ", ".join(map(repr, names))


def require_one_offset(block: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    """``BlockError`` where a leg has an offset and the declared action of its factor is affine: both say the same constant.

    The action is linear in a factor if it takes zero to zero, for a random element and whatever the sizes are.
    """
    offsets = [(side, leg) for side, leg in block.legs if leg.offset]
    if not offsets or block.geometry is None:
        return
    sizes, generator = block.sizes(shapes), torch.Generator().manual_seed(0)
    elements = [group.random_element(generator, condition=2.0, sizes=sizes) for group in groups_of(block.geometry)]
    factors = {
        name: [sizes.get(str(size), size) for size in shape] for name, shape in factors_of(block.geometry).items()
    }
    moved = module_of(block.geometry).action(
        *elements, *(torch.zeros(*s, dtype=torch.float64) for s in factors.values())
    )
    constant = dict(zip(factors, (moved,) if isinstance(moved, torch.Tensor) else moved, strict=True))
    for name, leg in offsets:
        if bool((constant[name] != 0).any()):
            raise BlockError(
                f"block {block.name!r}, factor {name}, leg on {leg.tensor!r}: it has offset {leg.offset:g}, but the action of "
                f"{block.geometry.name} on {name} is affine already: declare the constant in one of the two places"
            )
