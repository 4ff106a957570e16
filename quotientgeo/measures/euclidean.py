"""Euclidean sharpness: max over |xi|_2 <= rho of L(w + xi) - L(w), over all parameters."""

from __future__ import annotations

import torch
from torch import nn

from quotientgeo.measures.problem import Problem, elementwise

NORM = "|xi|_2 over all parameters"


def build(model: nn.Module, dtype: torch.dtype) -> Problem:
    return elementwise(model, dtype, torch.ones_like)
