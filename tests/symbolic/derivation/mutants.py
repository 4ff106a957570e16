"""Automatic mutants of every formula of a geometry: each is wrong in one place, the way a slip of the pen is."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from quotientgeo.symbolic.algebra import Alphabet, Polynomial, SymbolLetter, TracePolynomial, Word
from quotientgeo.symbolic.derivation import Geometry, MatrixFormula, ScalarFormula

Terms = list[tuple[Word, Fraction]]

# which claims are about which derived formula; a mutant is rejected when one of them fails
DERIVED = {
    "vertical": ("vertical_from_action", "vertical_in_kernel", "horizontal_condition"),
    "momentum": ("horizontal_condition", "momentum_conserved"),
    "gradient": ("gradient",),
    "christoffel": ("christoffel_symmetric", "christoffel_quadratic", "metric_compatible"),
    "vertical_gram": ("vertical_gram",),
    "projector": ("horizontal_difference",),
    "horizontal": ("horizontal_momentum", "horizontal_projects", "horizontal_difference"),
    "acceleration": ("acceleration", "energy_conserved", "momentum_conserved", "acceleration_equivariant"),
}
CLAIMS = DERIVED | {
    "action": ("action_identity", "action_composition", "vertical_from_action", "preserved", "invariance"),
    "inner": ("metric_symmetric", "metric_bilinear", "invariance", "horizontal_condition", "gradient", "acceleration"),
    "derivative_2": ("taylor_2",),
    "derivative_3": ("taylor_3",),
    "derivative_4": ("taylor_4",),
}


@dataclass(frozen=True)
class Mutant:
    """``geometry`` with one formula changed; ``equivalent`` when the normal form did not change."""

    name: str
    kind: str
    about: str
    geometry: Geometry
    equivalent: bool


def _product(alphabet: Alphabet, word: Word, coefficient: Fraction, size: object) -> Polynomial:
    out = alphabet.monomial(word[:1]) if word else alphabet.identity(size)  # type: ignore[arg-type]
    for letter in word[1:]:
        out = out * alphabet.monomial((letter,))
    return out * coefficient


def _square_parts(word: Word) -> list[tuple[int, int]]:
    """Sub-words that are square matrices, as slices; the whole word too when it is square."""
    return [
        (i, j) for i in range(len(word)) for j in range(i + 1, len(word) + 1) if word[i].rows == word[j - 1].columns
    ]


def _change_sign(alphabet: Alphabet, word: Word, rng: random.Random, arguments: tuple[str, ...]) -> Terms:
    return [(word, Fraction(-1))]


def _change_factor(alphabet: Alphabet, word: Word, rng: random.Random, arguments: tuple[str, ...]) -> Terms:
    return [(word, Fraction(101, 100))]


def _drop(alphabet: Alphabet, word: Word, rng: random.Random, arguments: tuple[str, ...]) -> Terms:
    return []


def _transpose_part(alphabet: Alphabet, word: Word, rng: random.Random, arguments: tuple[str, ...]) -> Terms | None:
    parts = _square_parts(word)
    if not parts:
        return None
    i, j = rng.choice(parts)
    turned = [alphabet.transpose(letter) for letter in reversed(word[i:j])]
    sign = Fraction(1)
    for factor, _ in turned:
        sign *= factor
    return [(word[:i] + tuple(letter for _, letter in turned) + word[j:], sign)]


def _swap_parts(alphabet: Alphabet, word: Word, rng: random.Random, arguments: tuple[str, ...]) -> Terms | None:
    """Two neighbouring square sub-words of the same size change places."""
    parts = _square_parts(word)
    pairs = [(i, j, k) for i, j in parts for start, k in parts if start == j and word[i].rows == word[j].rows]
    if not pairs:
        return None
    i, j, k = rng.choice(pairs)
    return [(word[:i] + word[j:k] + word[i:j] + word[k:], Fraction(1))]


def _rename_letter(alphabet: Alphabet, word: Word, rng: random.Random, arguments: tuple[str, ...]) -> Terms | None:
    """One symbol becomes another argument of the formula with the same shape."""
    choices = []
    for i, letter in enumerate(word):
        if not isinstance(letter, SymbolLetter) or letter.inverted:
            continue
        for name in arguments:
            new = alphabet.symbol_letter(name, letter.transposed)
            if name != letter.name and new.shape == letter.shape:
                choices.append((*word[:i], new, *word[i + 1 :]))
    return [(rng.choice(choices), Fraction(1))] if choices else None


KINDS: dict[str, Callable[[Alphabet, Word, random.Random, tuple[str, ...]], Terms | None]] = {
    "sign": _change_sign,
    "factor 1.01": _change_factor,
    "dropped term": _drop,
    "transpose": _transpose_part,
    "swapped factors": _swap_parts,
    "swapped letter": _rename_letter,
}


def _mutate_matrix(value: Polynomial, kind: str, rng: random.Random, arguments: tuple[str, ...]) -> Polynomial | None:
    alphabet = value.alphabet
    terms = list(value)
    rng.shuffle(terms)
    for word, coefficient in terms:
        new = KINDS[kind](alphabet, word, rng, arguments)
        if new is None:
            continue
        out = value - _product(alphabet, word, coefficient, value.shape[0])
        for other, factor in new:
            if any(a.columns != b.rows for a, b in pairwise(other)):
                break
            out = out + _product(alphabet, other, coefficient * factor, value.shape[0])
        else:
            return out
    return None


def _mutate_scalar(
    value: TracePolynomial, kind: str, rng: random.Random, arguments: tuple[str, ...]
) -> TracePolynomial | None:
    alphabet = value.alphabet
    terms = list(value)
    rng.shuffle(terms)
    for monomial, coefficient in terms:
        (factor,) = monomial
        new = KINDS[kind](alphabet, factor.letters, rng, arguments)
        if new is None:
            continue
        out = value - TracePolynomial(alphabet, {monomial: coefficient})
        for word, scale in new:
            out = out + _product(alphabet, word, coefficient * scale, factor.size).trace()
        return out
    return None


def _formulas(geometry: Geometry) -> Iterator[tuple[str, str, MatrixFormula | ScalarFormula, Callable[..., Geometry]]]:
    """(group, name, formula, how to put a changed formula back)."""

    def put(field: str, key: str) -> Callable[[MatrixFormula], Geometry]:
        return lambda new: dataclasses.replace(geometry, **{field: {**getattr(geometry, field), key: new}})

    def put_order(k: int, key: str) -> Callable[[MatrixFormula], Geometry]:
        return lambda new: dataclasses.replace(
            geometry, derivatives={**geometry.derivatives, k: {**geometry.derivatives[k], key: new}}
        )

    fields = ("action", "vertical", "momentum", "gradient", "acceleration", "christoffel", "vertical_gram")
    for field in (*fields, *(("projector", "horizontal") if geometry.horizontal is not None else ())):
        for key, formula in getattr(geometry, field).items():
            yield field, formula.name, formula, put(field, key)
    for k, blocks in geometry.derivatives.items():
        for key, formula in blocks.items():
            yield f"derivative_{k}", formula.name, formula, put_order(k, key)
    yield "inner", "inner", geometry.inner, lambda new: dataclasses.replace(geometry, inner=new)


def mutants(geometry: Geometry, seed: int = 0) -> Iterator[Mutant]:
    """One mutant of every kind of every formula, where the kind applies.

    What is preserved is not mutated by itself (minus G H' is preserved too): wrong actions and wrong vertical vectors test it.
    """
    for group, name, formula, put in _formulas(geometry):
        for kind in KINDS:
            rng = random.Random(f"{seed} {geometry.name} {name} {kind}")
            new: MatrixFormula | ScalarFormula
            if isinstance(formula, MatrixFormula):
                matrix = _mutate_matrix(formula.polynomial, kind, rng, formula.arguments)
                if matrix is None:
                    continue
                new, same = MatrixFormula.derived(name, formula.arguments, matrix), matrix == formula.polynomial
            else:
                scalar = _mutate_scalar(formula.polynomial, kind, rng, formula.arguments)
                if scalar is None:
                    continue
                new, same = ScalarFormula.derived(name, formula.arguments, scalar), scalar == formula.polynomial
            yield Mutant(f"{geometry.name} {name}", kind, group, put(new), same)
