"""geoopt's momentum, begun so that it is a tangent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import geoopt
import torch
from geoopt.manifolds.scaled import Scaled

from quotientgeo.manifolds.gl_pair import GLPair
from quotientgeo.manifolds.quotient import QuotientManifold


class RiemannianSGD(geoopt.optim.RiemannianSGD):
    """``geoopt.optim.RiemannianSGD`` with momentum that starts from zero on ``GLPair`` and ``QuotientManifold``.

    geoopt 0.5.1 starts the momentum with the *Euclidean* gradient, which is no tangent: the group moves it by A^-T where it
    moves tangents by A, so that two points of one orbit part ways for good. From zero, the first step is along the Riemannian
    gradient, as torch's is along the gradient, and the whole run is the same on every point of an orbit. Without momentum there
    is no difference. Arguments, and what happens to parameters on other manifolds, are geoopt's.

    ``weight_decay`` is not invariant in any optimiser: it pulls towards small weights, and the group changes their size.
    """

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        for group in self.param_groups:
            for point in group["params"]:
                if group["momentum"] > 0 and _on_quotient(point) and not self.state[point]:
                    self.state[point]["momentum_buffer"] = torch.zeros_like(point)
        return super().step(closure)


def _on_quotient(point: torch.Tensor) -> bool:
    manifold = getattr(point, "manifold", None)
    while isinstance(manifold, Scaled):
        manifold = manifold.base
    return isinstance(manifold, (GLPair, QuotientManifold))
