"""The groups as plain objects, shared by symbols (symbolic/) and numbers (geometry/, model/).

A group knows the shape and the law of its elements, its dimension, its Lie algebra and how to draw a random element; how an
element acts on the factors of a model is declared elsewhere (symbolic/declaration.py for formulas, model/blocks.py for
tensors).
"""

from __future__ import annotations

from quotientgeo.groups.arguments import LARGEST_CONDITION
from quotientgeo.groups.base import SimpleGroup
from quotientgeo.groups.complex_diagonal import ComplexDiagonal
from quotientgeo.groups.diagonal import NonzeroDiagonal, PositiveDiagonal, Scaling
from quotientgeo.groups.general_linear import GL
from quotientgeo.groups.orthogonal import Orthogonal
from quotientgeo.groups.product import Product
from quotientgeo.groups.translation import Translation

__all__ = [
    "GL",
    "LARGEST_CONDITION",
    "ComplexDiagonal",
    "NonzeroDiagonal",
    "Orthogonal",
    "PositiveDiagonal",
    "Product",
    "Scaling",
    "SimpleGroup",
    "Translation",
]
