"""From a derived geometry to batched torch source."""

from quotientgeo.symbolic.codegen.files import generate
from quotientgeo.symbolic.codegen.module import module_source

__all__ = ["generate", "module_source"]
