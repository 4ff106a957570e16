"""geoopt manifolds over the package's geometry, and what they need beside geoopt's own optimisers.

The one place that imports geoopt. Importing geoopt 0.5.1 uses torch.jit.script, which torch has deprecated: those warnings, and
no others, are kept from the user.
"""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", r"`torch\.jit\.script` is deprecated", DeprecationWarning, r"torch\.jit\._script")
    import geoopt  # noqa: F401  (here first, for every module of this folder)

from quotientgeo.manifolds.gl_pair import GLPair
from quotientgeo.manifolds.optim import RiemannianSGD
from quotientgeo.manifolds.quotient import QuotientManifold

__all__ = ["GLPair", "QuotientManifold", "RiemannianSGD"]
