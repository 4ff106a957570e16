"""Adaptive sharpness: max over |xi / |w||_2 <= rho of L(w + xi) - L(w) (Kwon et al. 2021), elementwise over all parameters."""

from __future__ import annotations

import torch
from torch import nn

from quotientgeo.measures.problem import Problem, elementwise

NORM = "|xi / |w||_2 over all parameters; a weight of exactly zero stays zero"


def build(model: nn.Module, dtype: torch.dtype) -> Problem:
    return elementwise(model, dtype, torch.abs)
