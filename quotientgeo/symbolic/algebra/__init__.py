"""Non-commutative matrix calculus over SymPy matrix expressions.

An ``Alphabet`` holds the symbols of one problem. A ``Polynomial`` is a matrix {word: rational}, a ``TracePolynomial`` a
scalar {product of scalars: rational}; both are immutable and always in normal form. A normal form that is zero is a proof for
all sizes. Words are tuples of letters: scalars (``TraceLetter``, ``ScalarSymbol``, ``InverseScalar``), then matrices
(``SymbolLetter``, ``InverseLetter``, ``PartLetter``, ``OnesLetter``). Everything is iterable in an order that depends on names
only, so what is generated from it is reproducible.
"""

from quotientgeo.symbolic.algebra.alphabet import Alphabet
from quotientgeo.symbolic.algebra.cyclic import trace
from quotientgeo.symbolic.algebra.definiteness import Palindrome, is_positive_definite, palindrome, roots
from quotientgeo.symbolic.algebra.letters import (
    COMMUTING,
    SCALARS,
    Dimension,
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    OnesLetter,
    PartLetter,
    ScalarLetter,
    ScalarSymbol,
    Shape,
    SymbolLetter,
    TraceLetter,
    Word,
    is_vector,
    split_scalars,
    word_key,
)
from quotientgeo.symbolic.algebra.linear import solve_linear
from quotientgeo.symbolic.algebra.parts import ComplexPart
from quotientgeo.symbolic.algebra.polynomial import Polynomial
from quotientgeo.symbolic.algebra.sympy_input import dimension, polynomial_from_sympy, trace_from_sympy
from quotientgeo.symbolic.algebra.sympy_output import sympy_dimension, sympy_symbol
from quotientgeo.symbolic.algebra.text import word_text
from quotientgeo.symbolic.algebra.trace import Monomial, TracePolynomial, one_over, scalar
from quotientgeo.symbolic.algebra.vanishing import vanishes

__all__ = [
    "COMMUTING",
    "SCALARS",
    "Alphabet",
    "ComplexPart",
    "Dimension",
    "InverseLetter",
    "InverseScalar",
    "Kind",
    "Letter",
    "Monomial",
    "OnesLetter",
    "Palindrome",
    "PartLetter",
    "Polynomial",
    "ScalarLetter",
    "ScalarSymbol",
    "Shape",
    "SymbolLetter",
    "TraceLetter",
    "TracePolynomial",
    "Word",
    "dimension",
    "is_positive_definite",
    "is_vector",
    "one_over",
    "palindrome",
    "polynomial_from_sympy",
    "roots",
    "scalar",
    "solve_linear",
    "split_scalars",
    "sympy_dimension",
    "sympy_symbol",
    "trace",
    "trace_from_sympy",
    "vanishes",
    "word_key",
    "word_text",
]
