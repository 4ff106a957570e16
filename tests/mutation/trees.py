"""Slips of the pen in SymPy expressions: every single change of every kind, at every place where it can be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import sympy as sp

from quotientgeo.symbolic.algebra.parts import ComplexPart

Letters = Sequence[Sequence[sp.MatrixSymbol]]  # letters of one role may be taken for each other
Change = Callable[[sp.Basic, Letters], Iterator[sp.Basic]]
SUMS, PRODUCTS = (sp.Add, sp.MatAdd), (sp.Mul, sp.MatMul)


def _is_square(node: sp.Basic) -> bool:
    return isinstance(node, sp.MatrixExpr) and node.shape[0] == node.shape[1] and node.shape[0] != 1


def _with(node: sp.Basic, i: int, new: sp.Basic) -> sp.Basic:
    return node.func(*node.args[:i], new, *node.args[i + 1 :])


def _scaled(node: sp.Basic, factor: sp.Rational) -> sp.Basic:
    return sp.MatMul(factor, node) if isinstance(node, sp.MatrixExpr) else factor * node


def _terms(factor: sp.Rational) -> Change:
    def change(node: sp.Basic, letters: Letters) -> Iterator[sp.Basic]:
        if isinstance(node, SUMS):
            for i, part in enumerate(node.args):
                yield _with(node, i, _scaled(part, factor))

    return change


def _dropped_term(node: sp.Basic, letters: Letters) -> Iterator[sp.Basic]:
    if isinstance(node, SUMS):
        for i in range(len(node.args)):
            rest = node.args[:i] + node.args[i + 1 :]
            yield node.func(*rest) if len(rest) > 1 else rest[0]


def _swapped_factors(node: sp.Basic, letters: Letters) -> Iterator[sp.Basic]:
    """Neighbours of the same shape, or a square matrix on the wrong side where that fits too."""
    if not isinstance(node, sp.MatMul):
        return
    for i in range(len(node.args) - 1):
        left, right = node.args[i], node.args[i + 1]
        if _is_square(left) and _is_square(right) and left.shape == right.shape and left != right:
            yield sp.MatMul(*node.args[:i], right, left, *node.args[i + 2 :])


def _dropped_factor(node: sp.Basic, letters: Letters) -> Iterator[sp.Basic]:
    if isinstance(node, PRODUCTS):
        for i, part in enumerate(node.args):
            rest = node.args[:i] + node.args[i + 1 :]
            if not (part.is_Rational or (isinstance(part, sp.MatrixExpr) and not _is_square(part))):
                yield node.func(*rest) if len(rest) > 1 else rest[0]


def _dropped_inverse(node: sp.Basic, letters: Letters) -> Iterator[sp.Basic]:
    """X for X^-1, and x^k for x^-k."""
    match node:
        case sp.Inverse():
            yield node.arg
        case sp.MatPow() | sp.HadamardPower() | sp.Pow() if node.args[1].is_Integer:
            yield node.func(node.args[0], -node.args[1]) if node.args[1] != -1 else node.args[0]


def _wrong_power(node: sp.Basic, letters: Letters) -> Iterator[sp.Basic]:
    match node:
        case sp.MatPow() | sp.HadamardPower() | sp.Pow() if node.args[1].is_Integer and not isinstance(
            node, sp.Inverse
        ):
            step = 1 if node.args[1] > 0 else -1
            yield node.func(node.args[0], node.args[1] + step)


def _dropped_transpose(node: sp.Basic, letters: Letters) -> Iterator[sp.Basic]:
    if isinstance(node, sp.Transpose) and _is_square(node):
        yield node.arg


def _added_transpose(node: sp.Basic, letters: Letters) -> Iterator[sp.Basic]:
    if isinstance(node, sp.MatrixSymbol) and _is_square(node):
        yield sp.Transpose(node)


def _swapped_letter(node: sp.Basic, letters: Letters) -> Iterator[sp.Basic]:
    for role in letters:
        if node in role:
            yield from (other for other in role if other != node and other.shape == node.shape)


def _wrong_gram(node: sp.Basic, letters: Letters) -> Iterator[sp.Basic]:
    """All occurrences of a letter in a square part become another letter, such as G' G become H' H."""
    if not (_is_square(node) and isinstance(node, sp.MatMul)):
        return
    for old in sorted(node.atoms(sp.MatrixSymbol), key=str):
        for new in (other for role in letters if old in role for other in role):
            if new.shape[1] == old.shape[1] and new.shape[0] != old.shape[0]:
                try:
                    other = node.xreplace({old: new})
                    fits = other.shape == node.shape
                except sp.ShapeError:
                    continue
                if fits:
                    yield other


def _wrong_part(node: sp.Basic, letters: Letters) -> Iterator[sp.Basic]:
    """The whole matrix for its (complex) diagonal, the other pairing, and ones forgotten."""
    match node:
        case ComplexPart():
            yield ComplexPart(node.arg, "interleaved" if node.pairing == "half" else "half")
            yield node.arg
        case sp.DiagMatrix() if isinstance(node.args[0], sp.DiagonalOf):
            yield node.args[0].args[0]
        case sp.OneMatrix():
            yield sp.ZeroMatrix(*node.shape)


KINDS: dict[str, Change] = {
    "sign": _terms(sp.Integer(-1)),
    "factor 1.01": _terms(sp.Rational(101, 100)),
    "factor 5": _terms(sp.Integer(5)),
    "dropped term": _dropped_term,
    "dropped factor": _dropped_factor,
    "swapped factors": _swapped_factors,
    "dropped inverse": _dropped_inverse,
    "wrong power": _wrong_power,
    "dropped transpose": _dropped_transpose,
    "added transpose": _added_transpose,
    "swapped letter": _swapped_letter,
    "wrong Gram matrix": _wrong_gram,
    "wrong part": _wrong_part,
}


def changed(node: sp.Basic, kind: str, letters: Letters, whole: bool = True) -> Iterator[sp.Basic]:
    """The expression with one change of this kind, for every place; a sum of one term is changed as a whole."""
    if whole and kind in ("sign", "factor 1.01", "factor 5") and not isinstance(node, SUMS):
        yield _scaled(node, {"sign": sp.Integer(-1), "factor 1.01": sp.Rational(101, 100)}.get(kind, sp.Integer(5)))
    yield from KINDS[kind](node, letters)
    for i, part in enumerate(node.args):
        if isinstance(part, sp.MatrixSymbol | sp.MatrixExpr | sp.Expr) and not isinstance(node, sp.MatrixSymbol):
            for new in changed(part, kind, letters, whole=False):
                try:
                    yield _with(node, i, new)
                except (sp.ShapeError, ValueError, TypeError):  # no longer an expression
                    continue
