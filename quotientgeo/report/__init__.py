"""Figures and pages for readers: drawn without a display, self-contained, the same for the same numbers."""

from quotientgeo.report.figures import Series, orbit_figure, png, svg, two_weights_figure
from quotientgeo.report.page import image_source, render

__all__ = ["Series", "image_source", "orbit_figure", "png", "render", "svg", "two_weights_figure"]
