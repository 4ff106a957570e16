"""Closed forms of geodesics, derived from the geodesic equation of a geometry, proven by SymPy and printed as torch code."""

from quotientgeo.symbolic.closed_form.record import CLAIM, FILE, ClosedForm, closed_form, with_claim
from quotientgeo.symbolic.closed_form.runs import check_text

__all__ = ["CLAIM", "FILE", "ClosedForm", "check_text", "closed_form", "with_claim"]
