"""From a derived geometry to batched torch source."""

from quotientgeo.symbolic.codegen.module import module_source

__all__ = ["module_source"]
