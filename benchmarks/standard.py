"""The usual evaluator of adaptive worst-case sharpness, as a yardstick.

It follows the evaluator of Andriushchenko, Croce, Müller, Hein and Flammarion (2023), "A modern look at the relationship
between sharpness and generalization", in its l2 variant with elementwise scaling, operation for operation, written anew: the
weights of the model itself move, each step takes a forward and a backward pass for the gradient and a second forward pass for
the loss at the new point, the perturbation is a dictionary of tensors that are copied where they copy them, the nearest point
of the ellipsoid is found by bisection, and every improvement is kept as a deep copy of the state dictionary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

MOMENTUM = 0.75
CLOSE = 1e-5  # of the norm to rho, where the bisection stops
FIRST_MULTIPLIER, FIRST_LIMIT = 0.1, 10.0
SMALLEST = 1e-12  # stands for |w| where a weight is exactly zero: there the perturbation is zero, and 0/0 would be NaN

Tensors = dict[str, Tensor]


class StandardEvaluator:
    """Maximise ``loss()`` of ``model`` over |xi / w|_2 <= rho; the step size is not adapted here, as it costs nothing."""

    def __init__(self, model: nn.Module, loss: Callable[[], Tensor], rho: float) -> None:
        self.model, self.loss, self.rho, self.step_size = model, loss, rho, 2 * rho
        self.original = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.scale = {name: w.abs().clamp_min(SMALLEST) for name, w in self.original.items()}
        self.perturbation = {name: torch.zeros_like(w) for name, w in self.original.items()}
        self.previous = {name: xi.clone() for name, xi in self.perturbation.items()}
        self.kept = copy.deepcopy(model.state_dict())
        self.best = self._value()
        self.bisections = 0

    def step(self) -> None:
        before = {name: xi.clone() for name, xi in self.perturbation.items()}
        self.model.zero_grad()
        self.loss().backward()
        with torch.no_grad():
            self._ascend()
            projected = self._projected()
            for name, parameter in self.model.named_parameters():
                projected[name] = MOMENTUM * projected[name] + (1 - MOMENTUM) * self.previous[name]
                parameter.data = self.original[name] + projected[name]
            self.perturbation, self.previous = projected, before
        value = self._value()
        if value > self.best:
            self.best, self.kept = value, copy.deepcopy(self.model.state_dict())

    def restore(self) -> None:
        """Give the model its own weights back."""
        for name, parameter in self.model.named_parameters():
            parameter.data = self.original[name]

    def _value(self) -> float:
        with torch.no_grad():
            return self.loss().item()

    def _ascend(self) -> None:
        gradients = {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}
        length = sum(g.norm() ** 2 for g in gradients.values()) ** 0.5
        for name, g in gradients.items():
            self.perturbation[name] += self.step_size / (length + 1e-12) * g * self.original[name].abs()

    def _norm(self, perturbation: Tensors) -> Tensor:
        squares = [((xi / self.scale[name]) ** 2).sum() for name, xi in perturbation.items()]
        return sum(squares, torch.zeros(())) ** 0.5

    def _projected(self) -> Tensors:
        """The nearest point of the ellipsoid: xi / (1 + 2 l / w^2), with the multiplier l found by bisection."""
        found = {name: xi.clone() for name, xi in self.perturbation.items()}
        norm = self._norm(found)
        multiplier, low, limit = FIRST_MULTIPLIER, 0.0, FIRST_LIMIT
        high = limit
        if norm > self.rho:
            while (norm - self.rho).abs() > CLOSE:
                self.bisections += 1
                for name, xi in self.perturbation.items():
                    found[name] = xi / (1 + 2 * multiplier * (1 / self.scale[name]) ** 2)
                norm = self._norm(found)
                if norm > self.rho:
                    multiplier, low = (multiplier + high) / 2, multiplier
                else:
                    multiplier, high = (low + multiplier) / 2, multiplier
                if limit - high < 1e-2:  # never below the limit so far: it may lie above
                    limit, high = 2 * limit, 2 * high
        return {name: xi.clone() for name, xi in found.items()}
