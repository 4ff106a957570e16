"""The derivation of a geometry as a page for a reader."""

from quotientgeo.symbolic.codegen.exposition.page import derivation_page

__all__ = ["derivation_page"]
