"""The scalar toy x -> G H x with squared error (the paper's appendix D): gradient, Hessian and sharpness on its orbits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from quotientgeo.symbolic.examples.claims import Claim, prove, refute
from quotientgeo.symbolic.examples.coordinates import Coordinates, euclidean
from quotientgeo.symbolic.examples.rescaling import RHO, B, RescalingPair, T
from quotientgeo.symbolic.examples.spelling import spelled

X, Y = sp.symbols("x y", real=True)  # one example: the input and its target
OUTPUT = sp.Symbol("y_0", real=True)  # what the model gives for x at the point
PRODUCT = sp.Symbol("W", real=True, nonzero=True)  # G H


@dataclass(frozen=True)
class ScalarToy:
    """loss (y - G H x)^2 with the invariant or the mixed metric on (G, H)."""

    metric: str = "invariant"

    @cached_property
    def pair(self) -> RescalingPair:
        return RescalingPair(self.metric, ("G", "H"))

    @property
    def geometry(self) -> Coordinates:
        return self.pair.coordinates

    @property
    def point(self) -> tuple[sp.Symbol, sp.Symbol]:
        return self.pair.point

    @property
    def loss(self) -> sp.Expr:
        G, H = self.point
        return (G * H * X - Y) ** 2

    @cached_property
    def squared_gradient_norm(self) -> sp.Expr:
        """|grad loss|^2 in the metric."""
        return self.geometry.squared_gradient_norm(self.loss)

    @cached_property
    def hessian_trace(self) -> sp.Expr:
        """Trace of the Riemannian Hessian on the whole tangent space (G, H)."""
        return self.geometry.hessian_trace(self.loss)

    @cached_property
    def horizontal_trace(self) -> sp.Expr:
        """Its part on horizontal vectors: the trace of the Hessian on the quotient."""
        return self._hessian_along(self.pair.horizontal)

    @cached_property
    def vertical_trace(self) -> sp.Expr:
        """Its part along the orbit; not zero where orbits are no geodesics."""
        return self._hessian_along(self.pair.vertical)

    def _hessian_along(self, xi: list[sp.Expr]) -> sp.Expr:
        return sp.factor(sp.simplify(self.geometry.hessian(self.loss, xi, xi) / self.geometry.inner(xi, xi)))

    @cached_property
    def rise(self) -> sp.Expr:
        """loss(Exp(xi)) - loss of the horizontal vector with relative velocity b, in y_0 = G H x (mixed: in x and W too)."""
        G, H = self.point
        moved = [entry.subs(T, 1) for entry in self.pair.geodesic]
        change = self.loss.subs({G: moved[0], H: moved[1]}, simultaneous=True) - self.loss
        return sp.expand(sp.simplify(change.subs(X, OUTPUT / (G * H))))

    @cached_property
    def ends(self) -> tuple[sp.Expr, sp.Expr]:
        """The rise at b = R and b = -R, where |xi| = rho: in y, y_0 and rho; where R depends on W = G H, in y, x, W and rho."""
        G, H = self.point
        largest = self.pair.largest_b.subs(G, PRODUCT / H)
        rise = self.rise.subs(OUTPUT, PRODUCT * X) if largest.has(PRODUCT) else self.rise
        return rise.subs(B, largest), rise.subs(B, -largest)

    @cached_property
    def sharpness(self) -> sp.Expr:
        """Geodesic sharpness of radius rho: the larger end, (f(R) + f(-R))/2 + |f(R) - f(-R)|/2."""
        up, down = self.ends
        even, odd = (sp.simplify(sp.expand(up + sign * down) / 2) for sign in (1, -1))
        return even + sp.sqrt(sp.factor(odd**2))

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """What is constant on orbits, and what the maximum over the ball is."""
        return (
            *self._orbit_claims(),
            *(_invariant_maximum(self) if self.metric == "invariant" else _mixed_maximum(self)),
        )

    def _orbit_claims(self) -> tuple[Claim, ...]:
        G, H = self.point
        moved = dict(zip(self.point, self.pair.moved, strict=True))

        def constant(quantity: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
            """Orbit derivative, and the difference after any group element: both have to vanish."""
            there = quantity.subs(moved, simultaneous=True)
            return self.geometry.derivative(quantity, self.pair.vertical), there - quantity

        slope = self.loss.subs(G, PRODUCT / H).diff(PRODUCT).subs(PRODUCT, G * H)
        return (
            prove(
                "loss",
                "The loss is constant on orbits, so its Riemannian gradient is horizontal.",
                *constant(self.loss),
                self.geometry.inner(self.geometry.gradient(self.loss), self.pair.vertical),
            ),
            prove(
                "gradient norm",
                rf"The squared norm of the Riemannian gradient, ${spelled(self.squared_gradient_norm)}$, is constant on orbits.",
                *constant(self.squared_gradient_norm),
                self.squared_gradient_norm - slope**2 * (2 * B * G * H) ** 2 / self.pair.squared_norm,
            ),
            prove(
                "trace of the Hessian",
                rf"The trace of the Riemannian Hessian, ${spelled(self.hessian_trace)}$, is constant on orbits. So are its "
                rf"horizontal part, ${spelled(self.horizontal_trace)}$, and its vertical part, ${spelled(self.vertical_trace)}$.",
                *constant(self.hessian_trace),
                *constant(self.horizontal_trace),
                *constant(self.vertical_trace),
                self.hessian_trace - self.horizontal_trace - self.vertical_trace,
            ),
        )


def euclidean_norm_and_trace(toy: ScalarToy) -> tuple[sp.Expr, sp.Expr]:
    """Squared norm of the ordinary gradient and trace of the ordinary Hessian."""
    plain = euclidean(toy.point)
    return plain.squared_gradient_norm(toy.loss), plain.hessian_trace(toy.loss)


def euclidean_claims() -> tuple[Claim, Claim]:
    """The same two quantities in the Euclidean metric: refuted, each by a point and a group element."""
    toy = ScalarToy()
    moved = dict(zip(toy.point, toy.pair.moved, strict=True))
    norm, trace = euclidean_norm_and_trace(toy)

    def change(quantity: sp.Expr) -> sp.Expr:
        return quantity.subs(moved, simultaneous=True) - quantity

    return (
        refute(
            "Euclidean gradient norm",
            rf"The squared norm of the Euclidean gradient, ${spelled(norm)}$, is constant on orbits.",
            change(norm),
        ),
        refute(
            "Euclidean trace of the Hessian",
            rf"The trace of the Euclidean Hessian, ${spelled(trace)}$, is constant on orbits.",
            change(trace),
        ),
    )


def _invariant_maximum(toy: ScalarToy) -> tuple[Claim, ...]:
    z, R = sp.symbols("z R", positive=True)
    up, down = (toy.rise.subs(B, sign * R) for sign in (1, -1))
    stated = OUTPUT**2 * (sp.exp(4 * B) - 1) - 2 * Y * OUTPUT * (sp.exp(2 * B) - 1)
    even = OUTPUT**2 * (sp.cosh(4 * R) - 1) - 2 * Y * OUTPUT * (sp.cosh(2 * R) - 1)
    odd = 2 * OUTPUT * sp.sinh(2 * R) * (OUTPUT * sp.cosh(2 * R) - Y)
    return (
        prove(
            "rise along a geodesic",
            r"Along the geodesic the loss rises by $f(b) = y_0^2 (e^{4b} - 1) - 2 y y_0 (e^{2b} - 1)$, with $y_0 = G H x$.",
            toy.rise - stated,
        ),
        prove(
            "the maximum is at an end",
            r"As a function of $z = e^{2b}$, which grows with $b$, $f$ is a convex parabola, $f'' = 2 y_0^2 \ge 0$: on "
            r"$|b| \le R$ it is largest at $b = R$ or $b = -R$. Here $|\xi| \le \rho$ means $R = \rho / \sqrt 2$.",
            toy.rise.subs(B, sp.log(z) / 2).diff(z, 2) - 2 * OUTPUT**2,
            toy.pair.largest_b - RHO / sp.sqrt(2),
        ),
        prove(
            "geodesic sharpness",
            r"$S_{\max} = y_0^2 (\cosh 4R - 1) - 2 y y_0 (\cosh 2R - 1) "
            r"+ 2 |y_0| \sinh 2R \, |y_0 \cosh 2R - y|$; "
            r"the upper end wins exactly where $y_0 (y_0 \cosh 2R - y) \ge 0$.",
            *((entry - half).rewrite(sp.exp) for entry, half in (((up + down) / 2, even), ((up - down) / 2, odd))),
            *((end.subs(RHO, sp.sqrt(2) * R) - f) for end, f in zip(toy.ends, (up, down), strict=True)),
        ),
    )


def _mixed_maximum(toy: ScalarToy) -> tuple[Claim, ...]:
    delta = sp.Symbol("delta", real=True)
    G, H = toy.point
    return (
        prove(
            "rise along a geodesic",
            r"The product $W = G H$ moves on a straight line, $W + \delta$ with $\delta = 2 b W$ and "
            r"$|\delta| = \sqrt 2 \, |\xi|$. The loss rises by $2 x (y_0 - y) \delta + x^2 \delta^2$.",
            toy.rise.subs(B, delta * X / (2 * OUTPUT)) - 2 * X * (OUTPUT - Y) * delta - X**2 * delta**2,
            toy.pair.squared_norm.subs(B, delta / (2 * G * H)) - delta**2 / 2,
        ),
        prove(
            "geodesic sharpness",
            r"A convex parabola is largest at an end: $S_{\max} = 2 \sqrt 2 \, \rho |x| |y_0 - y| + 2 \rho^2 x^2$.",
            toy.sharpness - 2 * sp.sqrt(2) * RHO * sp.Abs(X) * sp.Abs(PRODUCT * X - Y) - 2 * RHO**2 * X**2,
        ),
        prove(
            "domain",
            r"All geodesics of the ball exist exactly for $\rho < |G H| / \sqrt 2$: where $1 + 2 b$ reaches zero, so does $W$.",
            toy.pair.radius - sp.Abs(G * H) / sp.sqrt(2),
        ),
    )
