"""quotientgeo: declare a symmetry group, get proven geodesic code, measure any checkpoint modulo its symmetries.

The namespace is lazy (PEP 562): ``import quotientgeo`` loads neither SymPy nor geoopt nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("quotientgeo")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0.0.0+source"

# public name -> module that defines it, grouped by purpose
_PUBLIC = {
    # declare and derive
    "GL": "quotientgeo.groups",
    "Orthogonal": "quotientgeo.groups",
    "PositiveDiagonal": "quotientgeo.groups",
    "NonzeroDiagonal": "quotientgeo.groups",
    "ComplexDiagonal": "quotientgeo.groups",
    "Scaling": "quotientgeo.groups",
    "Translation": "quotientgeo.groups",
    "Product": "quotientgeo.groups",
    "Symmetry": "quotientgeo.symbolic.declaration",
    "Metric": "quotientgeo.symbolic.declaration",
    "derive": "quotientgeo.symbolic.derivation",
    "search_metrics": "quotientgeo.symbolic.metric_search",
    "Words": "quotientgeo.symbolic.metric_search",
    "ComplexPart": "quotientgeo.symbolic.algebra",
    "generate": "quotientgeo.symbolic.files",
    # geometry on tensors
    "GLPair": "quotientgeo.manifolds.gl_pair",
    "QuotientManifold": "quotientgeo.manifolds.quotient",
    # a model
    "symmetry_graph": "quotientgeo.model.graph",
    "SymmetryGraph": "quotientgeo.model.graph",
    "PairBlock": "quotientgeo.model.blocks",
    "DeclaredBlock": "quotientgeo.model.blocks",
    "ShiftBlock": "quotientgeo.model.blocks",
    "Leg": "quotientgeo.model.blocks",
    "load_checkpoint": "quotientgeo.model.checkpoint",
    "load_weights": "quotientgeo.model.checkpoint",
    "save_checkpoint": "quotientgeo.model.saving",
    # measure
    "sharpness": "quotientgeo.measures.evaluate",
    "SharpnessResult": "quotientgeo.measures.result",
    "distance": "quotientgeo.measures.model_distance",
    "DistanceResult": "quotientgeo.measures.model_distance",
}

__all__ = ["__version__", *_PUBLIC]  # noqa: PLE0604  (names resolve through __getattr__)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'quotientgeo' has no attribute {name!r}; public names: {', '.join(_PUBLIC)}")


def __dir__() -> list[str]:
    return sorted(__all__)
