"""The derivation of a geometry as a page for a reader."""

from quotientgeo.symbolic.codegen.exposition.page import derivation_page
from quotientgeo.symbolic.codegen.exposition.tex import tex_document

__all__ = ["derivation_page", "tex_document"]
