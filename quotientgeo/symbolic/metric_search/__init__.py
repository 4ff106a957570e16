"""Search for invariant metrics inside a stated ansatz."""

from quotientgeo.symbolic.metric_search.ansatz import Words
from quotientgeo.symbolic.metric_search.definiteness import Definiteness, Sign
from quotientgeo.symbolic.metric_search.finder import search_metrics
from quotientgeo.symbolic.metric_search.result import MetricSearch, MetricTerm

__all__ = ["Definiteness", "MetricSearch", "MetricTerm", "Sign", "Words", "search_metrics"]
