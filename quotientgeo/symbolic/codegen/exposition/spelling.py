"""Letters, matrices and scalars of one geometry in LaTeX; what the sections of a derivation share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from quotientgeo.symbolic.algebra import Dimension, Polynomial, TraceLetter, TracePolynomial, Word
from quotientgeo.symbolic.algebra.letters import split_scalars
from quotientgeo.symbolic.codegen.exposition.latex import (
    WIDEST,
    Latex,
    aligned,
    display,
    number_latex,
    symbol_latex,
    visible,
)
from quotientgeo.symbolic.codegen.grams import choose_grams
from quotientgeo.symbolic.codegen.module import representative_sizes
from quotientgeo.symbolic.codegen.notation import Notation, Velocity
from quotientgeo.symbolic.derivation import Geometry


class Spelling:
    """Spells the formulas of one geometry."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.names = geometry.names
        self.alphabet = geometry.alphabet
        self.factors = tuple(geometry.factors)
        self.vertical = symbol_latex(geometry.vertical_name)
        sizes = representative_sizes(geometry)
        self.grams = choose_grams(geometry.factors, sizes, [*geometry.alphabet, *map(str, geometry.sizes)])
        velocities = {f: self._velocity(f) for f in self.grams}
        self.notation = Notation(geometry.alphabet, self.grams, sizes)
        self.with_rates = Notation(geometry.alphabet, self.grams, sizes, velocities)
        self.short = Notation(geometry.alphabet, self.grams, sizes, velocities, short=True)
        self.accelerations = {
            factor: self.alphabet.declare_fresh(f"acc_{factor}", shape, self.alphabet.kind(factor))
            for factor, shape in geometry.factors.items()
        }
        self.acceleration_letters = {factor: letter.symbols()[0] for factor, letter in self.accelerations.items()}
        self._latex = Latex(self._overrides())

    def _velocity(self, factor: str) -> Velocity:
        stem = next(letter for letter in ("M", "K", "N", "Z_M") if f"{letter}_{factor}" not in self.alphabet)
        return Velocity(
            self.names.tangent(factor), f"{stem}_{factor}", f"Xi_{factor}", f"rate_{self.grams[factor].name}"
        )

    def _overrides(self) -> dict[str, str]:
        """Euclidean gradients as partial derivatives, accelerations with a dot, the second group element as B."""
        out = {self.names.euclidean(f): rf"\partial_{{{symbol_latex(f)}}}" for f in self.factors}
        for factor, letter in self.acceleration_letters.items():
            out[letter] = rf"\dot{{\xi}}_{{{symbol_latex(factor)}}}"
        out |= {f"rate_{gram.name}": rf"\dot{{{symbol_latex(gram.name)}}}" for gram in self.grams.values()}
        out |= {name: r"\varepsilon" for name in self.geometry.metric.parameters if name == "eps"}
        for k, letters in self.geometry.rates.items():
            out |= {letter: rf"{{{symbol_latex(factor)}^{{({k})}}}}" for factor, letter in letters.items()}
        for element in self.names.elements:
            free = element == "A" and "B" not in self.alphabet
            out[self.names.other_element(element)] = "B" if free else rf"\tilde{{{symbol_latex(element)}}}"
        return out

    def renamed(self, names: Mapping[str, str]) -> Latex:
        """The same spelling with some letters called otherwise."""
        return Latex(self._overrides() | dict(names))

    def symbol(self, name: str) -> str:
        """LaTeX of a letter."""
        return self._latex.symbol(name)

    def line(self, polynomial: Polynomial, collect: bool = True) -> str:
        """A matrix on one line."""
        return self._latex.line(self.notation.matrix(polynomial, collect))

    def block(self, left: str, polynomial: Polynomial, notation: Notation | None = None) -> str:
        """``left = polynomial`` as rows of an aligned block."""
        return self._latex.block(left, (notation or self.notation).matrix(polynomial))

    def scalar(self, value: TracePolynomial, last: Sequence[str] = ()) -> str:
        """A scalar on one line."""
        return self._latex.line(self.notation.scalar(value, last))

    def displayed_scalar(self, left: str, value: TracePolynomial) -> str:
        """``left = value`` set off, in rows where it is long."""
        tree = self.notation.scalar(value, ())
        if len(self._latex.rows(tree, WIDEST)) == 1 or visible(self._latex.line(tree)) <= WIDEST:
            return display(f"{left} = {self._latex.line(tree)}")
        return aligned([self._latex.block(left, tree)])

    def gram(self, factor: str, other: Polynomial | None = None) -> Polynomial:
        """The Gram matrix of a factor, or its product of the same kind with another letter."""
        here = self.alphabet[factor]
        there = here if other is None else other
        return here * there.T if self.grams[factor].wide else here.T * there

    def shape(self, name: str) -> str:
        """R^{n x h} of a letter, R of a number."""
        rows, columns = self.alphabet.shape(name)
        if rows == columns == 1:
            return r"\mathbb{R}"
        return rf"\mathbb{{R}}^{{{size_latex(rows)} \times {size_latex(columns)}}}"

    def point(self, rename: Mapping[str, str] | None = None) -> str:
        """(G, H), or any other letters per factor; W where it is the only one."""
        return listed(self.symbol((rename or {}).get(f, f)) for f in self.factors)

    def tangent_point(self) -> str:
        """(xi_G, xi_H)."""
        return self.point({f: self.names.tangent(f) for f in self.factors})

    def euclidean_point(self) -> str:
        """The Euclidean gradient."""
        return self.point({f: self.names.euclidean(f) for f in self.factors})

    def elements(self) -> str:
        """A, or (A_1, A_2)."""
        return listed(map(self.symbol, self.names.elements))

    def algebra(self) -> str:
        """X, or (X_1, X_2)."""
        return listed(map(self.symbol, self.names.algebra))

    # letters replaced, nothing cancelled

    def replaced(self, polynomial: Polynomial, values: Mapping[str, Polynomial]) -> str:
        """The polynomial with its letters replaced, nothing cancelled; neighbours that cancel stand over a brace."""
        out: list[str] = []
        for word, coefficient in polynomial:
            scalars, matrices = split_scalars(word)
            body, summed = self._substituted_word(matrices, values)
            number = ""
            if scalars:
                numbers = TracePolynomial(self.alphabet, {scalars: Fraction(1)}).substitute(values)
                number = _bracketed(self.scalar(numbers), len(numbers) > 1)
            body = _bracketed(body, summed and (bool(number) or coefficient != 1))
            out.append(_signed(coefficient, f"{number} {body}".strip(), first=not out))
        return " ".join(out)

    def _substituted_word(self, word: Word, values: Mapping[str, Polynomial]) -> tuple[str, bool]:
        """Each letter (or Gram matrix) replaced on its own, so that the cancellation can be seen; and whether it is a sum."""
        if not word:
            return "I", False
        pieces: list[Word] = []
        for piece in self.notation.words(word):
            replaced = self.alphabet.monomial(piece).substitute(values)
            if len(replaced) == 1:
                ((inner, coefficient),) = replaced
                if coefficient == 1:
                    pieces.extend(self.notation.words(inner))
                    continue
            whole = self.alphabet.monomial(word).substitute(values)
            return self.line(whole), len(whole) > 1
        return self._cancelling(pieces), False

    def _cancelling(self, pieces: list[Word]) -> str:
        """Pieces in a row; each neighbouring pair a a^-1 over a brace that says I."""
        out: list[str] = []
        i = 0
        while i < len(pieces):
            pair = pieces[i : i + 2]
            if len(pair) == 2 and self._cancels(*pair):
                both = " ".join(self._word(piece) for piece in pair)
                out.append(rf"\underbrace{{{both}}}_{{I}}")
                i += 2
            else:
                same = next((j for j in range(i, len(pieces)) if pieces[j] != pieces[i]), len(pieces))
                following = pieces[same - 1 : same + 1]
                last = same - i > 1 and len(following) == 2 and self._cancels(*following)
                same -= last
                out.append(self._word(pieces[i] * (same - i)))
                i = same
        return " ".join(out)

    def _cancels(self, left: Word, right: Word) -> bool:
        return len(left) == len(right) == 1 and self.alphabet.local_inverse(left[0]) is right[0]

    def _word(self, word: Word) -> str:
        return self._latex.line(self.notation.matrix(self.alphabet.monomial(word), collect=False))

    def replaced_traces(self, value: TracePolynomial, values: Mapping[str, Polynomial]) -> str:
        """A sum of traces with its letters replaced, nothing cancelled."""
        out: list[str] = []
        for monomial, coefficient in value:
            body = ""
            for factor in monomial:
                if not isinstance(factor, TraceLetter):
                    body += self.scalar(TracePolynomial(self.alphabet, {(factor,): Fraction(1)}).substitute(values))
                elif factor.letters:
                    word = self.notation.rotated(factor)
                    replaced, _ = self._substituted_word(word, values)
                    number = self.alphabet.monomial(word).shape == (1, 1)  # needs no trace
                    body += ("" if number else r"\mathrm{tr}") + rf"\bigl( {replaced} \bigr)"
                else:
                    body += size_latex(factor.size)
            out.append(_signed(coefficient, body, first=not out))
        return " ".join(out)


def _bracketed(text: str, needed: bool) -> str:
    return rf"\bigl( {text} \bigr)" if needed else text


def _signed(coefficient: Fraction, body: str, first: bool) -> str:
    """A term of a sum."""
    sign = "-" if coefficient < 0 else "" if first else "+"
    number = "" if abs(coefficient) == 1 and body else number_latex(abs(coefficient))
    return " ".join(part for part in (sign, number, body) if part)


def size_latex(size: Dimension) -> str:
    """LaTeX of a size."""
    return str(size) if isinstance(size, int) else symbol_latex(size)


def listed(parts: Iterable[str]) -> str:
    """a, or (a, b)."""
    several = list(parts)
    return several[0] if len(several) == 1 else "(" + ", ".join(several) + ")"


def added(parts: list[str]) -> str:
    """Summands in a row."""
    out = parts[0] if parts else "0"
    for part in parts[1:]:
        out += f" {part}" if part.startswith("-") else f" + {part}"
    return out
