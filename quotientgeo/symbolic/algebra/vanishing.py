"""Is an expression zero? By its normal form; where commuting letters and numbers divide, over a common denominator.

Normal forms of fractions of commuting letters are not unique: 1/x - 1/(x (1 + x)) - 1/(1 + x) has three terms and is zero.
Words with the same letters that do not commute, in the same order, are one commutative fraction in what stands in their gaps.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

import sympy as sp

from quotientgeo.symbolic.algebra.letters import (
    InverseLetter,
    InverseScalar,
    Letter,
    ScalarLetter,
    SymbolLetter,
    TraceLetter,
    Word,
    split_scalars,
)
from quotientgeo.symbolic.algebra.normalisation import runs
from quotientgeo.symbolic.algebra.polynomial import Polynomial
from quotientgeo.symbolic.algebra.sympy_output import rational
from quotientgeo.symbolic.algebra.trace import Monomial, TracePolynomial

Slot: TypeAlias = int
Filling: TypeAlias = list[tuple[Slot, Letter]]  # the commuting letters with the gap that they stand in; -1 for numbers


def vanishes(value: Polynomial | TracePolynomial) -> bool:
    """Whether the expression is zero for all sizes; False where that is not found."""
    if value.is_zero or not value.alphabet.special:
        return value.is_zero
    groups: dict[object, list[tuple[Fraction, Filling]]] = {}
    for word, coefficient in value.terms.items():
        skeleton, filling = _of_monomial(word) if isinstance(value, TracePolynomial) else _of_word(word)
        groups.setdefault(skeleton, []).append((coefficient, filling))
    return all(map(_sums_to_zero, groups.values()))


def _of_word(word: Word) -> tuple[object, Filling]:
    scalars, matrices = split_scalars(word)
    skeleton, filling = _gaps(matrices, 0)
    return skeleton, [*((-1, letter) for letter in scalars), *filling]


def _gaps(matrices: Word, first: Slot) -> tuple[Word | tuple[object, ...], Filling]:
    """(letters that do not commute, the runs with the gaps that they stand in).

    Of two runs side by side, which are of two algebras and do not commute with each other, only the first fills the gap.
    """
    skeleton: list[object] = []
    filling: Filling = []
    spans = dict(runs(matrices))
    i = 0
    while i < len(matrices):
        if i in spans and (not filling or filling[-1][0] != first + len(skeleton)):
            filling += [(first + len(skeleton), letter) for letter in matrices[i : spans[i]]]
            i = spans[i]
            continue
        skeleton.append(matrices[i])
        i += 1
    return tuple(skeleton), filling


def _of_monomial(monomial: Monomial) -> tuple[object, Filling]:
    """Traces with a single run are linear in it; everything else is a number."""
    skeletons: list[tuple[object, ...]] = []
    filling: Filling = []
    traces = []
    for factor in monomial:
        if isinstance(factor, TraceLetter) and len(runs(factor.letters)) == 1 and len(factor.letters) > 1:
            traces.append(factor)
        else:
            filling.append((-1, factor))
    turned = []
    for factor in traces:
        ((start, end),) = runs(factor.letters)
        turned.append((factor.letters[end:] + factor.letters[:start], factor.letters[start:end]))
    turned.sort(key=lambda pair: tuple(letter.sort_key for letter in pair[0]))
    for slot, (rest, run) in enumerate(turned):
        skeletons.append(rest)
        filling += [(slot, letter) for letter in run]
    return tuple(skeletons), filling


def _sums_to_zero(terms: list[tuple[Fraction, Filling]]) -> bool:
    symbols: dict[tuple[Slot, Letter], sp.Dummy] = {}

    def symbol(slot: Slot, letter: Letter) -> sp.Expr:
        match letter:
            case InverseLetter(argument=argument):
                return 1 / sp.Add(*(rational(c) * product(slot, word) for word, c in argument))
            case InverseScalar(argument=scalar):
                return 1 / sp.Add(*(rational(c) * product(slot, monomial) for monomial, c in scalar))
            case SymbolLetter() if letter.inverted:
                plain = next((x for s, x in symbols if s == slot and _same_symbol(x, letter)), None)
                if plain is not None:
                    return 1 / symbols[slot, plain]
        return symbols.setdefault((slot, letter), sp.Dummy())

    def product(slot: Slot, word: Word) -> sp.Expr:
        return sp.Mul(*(symbol(-1 if isinstance(letter, ScalarLetter) else slot, letter) for letter in word))

    for _, filling in terms:  # symbols before their inverses
        for slot, letter in filling:
            if not (isinstance(letter, SymbolLetter) and letter.inverted):
                symbol(slot, letter)
    total = sp.Add(*(rational(c) * sp.Mul(*(symbol(*place) for place in filling)) for c, filling in terms))
    return bool(sp.expand(sp.fraction(sp.together(total))[0]) == 0)


def _same_symbol(letter: Letter, inverted: SymbolLetter) -> bool:
    return (
        isinstance(letter, SymbolLetter)
        and not letter.inverted
        and (letter.name, letter.transposed) == (inverted.name, inverted.transposed)
    )
