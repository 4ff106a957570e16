"""What must hold on every case of the table. Each property takes a case and asserts; ``PROPERTIES`` lists them all."""

from __future__ import annotations

import itertools
import math

import torch
from scipy.integrate import solve_ivp
from torch import Tensor

from quotientgeo.geometry.catalogue_code import generated_code
from quotientgeo.geometry.coordinates import dimension
from tests.manifolds.cases import Case, act, act_on_gradient, product, relative


def inner_by_inverses(case: Case, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """The metric as the docstring writes it, with explicit inverses, in float64."""
    (G, H), (a_G, a_H), (b_G, b_H) = (t.double().split([case.n, case.m], -2) for t in (x, u, v))
    P, Q = G.mT @ G, H.mT @ H
    weights = (torch.linalg.inv(P), torch.linalg.inv(Q)) if case.metric == "invariant" else (Q, P)
    parts = [
        torch.diagonal(w @ a.mT @ b, dim1=-2, dim2=-1).sum(-1)
        for w, a, b in zip(weights, (a_G, a_H), (b_G, b_H), strict=True)
    ]
    return parts[0] + parts[1]


def vertical(case: Case, x: Tensor, X: Tensor) -> Tensor:
    """Velocity of the orbit of the one-parameter group exp(tX)."""
    return torch.cat([-x[..., : case.n, :] @ X, x[..., case.n :, :] @ X.mT], -2)


def the_point_and_its_tangents_pass_the_checks(case: Case) -> None:
    manifold, x = case.setting()
    u = case.horizontal(manifold, x)
    assert manifold.check_point_on_manifold(x, explain=True) == (True, None)
    assert manifold.check_vector_on_tangent(x, u, explain=True, atol=0, rtol=10 * case.tolerance) == (True, None)
    ok, reason = manifold.check_vector_on_tangent(
        x, u + 0.01 * vertical(case, x, torch.eye(case.h, dtype=x.dtype)), explain=True
    )
    assert not ok
    assert "along the orbit" in reason
    assert x.dtype == u.dtype == case.dtype
    assert "GLPair(n=" in repr(manifold)


def inner_is_the_metric(case: Case) -> None:
    manifold, x = case.setting()
    u, v = case.ambient(x, stream=2), case.ambient(x, stream=3)
    value = manifold.inner(x, u, v)
    assert value.shape == case.batch
    scale = (inner_by_inverses(case, x, u, u) * inner_by_inverses(case, x, v, v)).sqrt()
    assert float(((value - inner_by_inverses(case, x, u, v)) / scale).abs().max()) < case.tolerance
    kept = manifold.inner(x, u, v, keepdim=True)
    assert kept.shape == (*case.batch, 1, 1)
    assert torch.equal(kept[..., 0, 0], value)
    assert torch.equal(manifold.inner(x, u), manifold.inner(x, u, u))
    assert relative(manifold.norm(x, u) ** 2, manifold.inner(x, u)) < case.tolerance
    assert manifold.norm(x, u, keepdim=True).shape == (*case.batch, 1, 1)
    A = case.group_element()
    moved = manifold.inner(*(act(A, t, case.n) for t in (x, u, v)))
    assert float(((moved - value) / scale).abs().max()) < case.tolerance


def projection_is_orthogonal_onto_the_horizontal_space(case: Case) -> None:
    manifold, x = case.setting()
    u, v = case.ambient(x, stream=2), case.ambient(x, stream=3)
    once, other = manifold.proju(x, u), manifold.proju(x, v)
    assert relative(manifold.proju(x, once), once) < case.tolerance
    scale = manifold.norm(x, u) * manifold.norm(x, v)
    assert float(((manifold.inner(x, once, v) - manifold.inner(x, u, other)) / scale).abs().max()) < case.tolerance
    X = case.normal(*case.batch, case.h, case.h, stream=4)
    along = vertical(case, x, X)
    assert (
        float((inner_by_inverses(case, x, once, along) / manifold.norm(x, along) / manifold.norm(x, u)).abs().max())
        < case.tolerance
    )
    A = case.group_element()
    assert relative(manifold.proju(act(A, x, case.n), act(A, u, case.n)), act(A, once, case.n)) < case.tolerance


def projection_has_the_rank_of_the_quotient(case: Case) -> None:
    manifold, x = case.setting()
    size = (case.n + case.m) * case.h
    single = x.reshape(-1, *x.shape[-2:])[0]
    basis = torch.eye(size, dtype=x.dtype).reshape(size, case.n + case.m, case.h)
    matrix = manifold.proju(single, basis).reshape(size, size)
    s = torch.linalg.svdvals(matrix.double())
    assert int((s > 1e3 * case.tolerance * s[0]).sum()) == dimension(case.n, case.m, case.h)
    assert abs(float(torch.trace(matrix.double())) - dimension(case.n, case.m, case.h)) < 1e3 * case.tolerance


def geodesic_reference(case: Case, x: Tensor, u: Tensor, times: list[float]) -> list[Tensor]:
    """The geodesic through x along u at the given times by DOP853 on the derived acceleration, in the original gauge."""
    code, shape = generated_code(case.metric), x.shape

    def rate(_: float, y: object) -> object:
        point, velocity = torch.as_tensor(y).reshape(2, *shape)
        acceleration = code.acceleration(*point.split([case.n, case.m], -2), *velocity.split([case.n, case.m], -2))
        return torch.stack([velocity, torch.cat(acceleration, -2)]).flatten().numpy()

    start = torch.stack([x.double(), u.double()]).flatten().numpy()
    done = solve_ivp(rate, (0.0, max(times)), start, method="DOP853", rtol=1e-12, atol=1e-13, t_eval=sorted(times))
    assert done.success
    ends = {t: torch.as_tensor(done.y[:, i]).reshape(2, *shape)[0] for i, t in enumerate(sorted(times))}
    return [ends[t] for t in times]


def the_geodesic_has_its_declared_order(case: Case) -> None:
    """Errors of order k fall like t^(k+1); what is exact agrees to the stated accuracy."""
    manifold, x = case.setting()
    u = case.horizontal(manifold, x, size=0.5)
    times = [1.0] if case.geodesic == "exact" else ([0.25, 0.125] if case.dtype == torch.float64 else [1.0, 0.5])
    errors = []
    for t, wanted in zip(times, geodesic_reference(case, x, u, times), strict=True):
        for step in (manifold.retr, manifold.expmap):
            end = step(x, t * u)
            assert end.dtype == case.dtype
            errors.append(float((end.double() - wanted).norm() / wanted.norm()))
        assert errors[-1] == errors[-2]
    if case.geodesic == "exact":
        assert errors[0] < max(1e-9, case.tolerance)
        return
    slope = math.log(errors[0] / errors[-1]) / math.log(times[0] / times[1])
    close = 0.2 if case.dtype == torch.float64 else 0.5  # larger times: errors have to stand out of float32's rounding
    assert abs(slope - (case.geodesic + 1)) < close, (slope, errors)


def geodesics_commute_with_the_group(case: Case) -> None:
    manifold, x = case.setting()
    u, A = case.horizontal(manifold, x), case.group_element()
    end = manifold.expmap(x, u)
    assert relative(manifold.expmap(act(A, x, case.n), act(A, u, case.n)), act(A, end, case.n)) < case.tolerance
    assert relative(manifold.expmap(x, torch.zeros_like(u)), x) < case.tolerance
    assert relative(product(end, case.n), product(x, case.n)) > 0.01


def the_gradient_is_the_gradient(case: Case) -> None:
    """<grad, xi> = df(xi) for every tangent, with df by automatic differentiation; horizontal; equivariant."""
    manifold, x = case.setting()
    gradient = manifold.egrad2rgrad(x, case.egrad(x))
    xi = case.ambient(x)
    _, slope = torch.func.jvp(case.function, (x.double(),), (xi.double(),))
    scale = float((manifold.norm(x, gradient) * manifold.norm(x, xi)).double().sum())
    assert abs(float(inner_by_inverses(case, x, gradient, xi).sum() - slope)) < case.tolerance * scale
    assert relative(manifold.proju(x, gradient), gradient) < case.tolerance
    A = case.group_element()
    moved = manifold.egrad2rgrad(act(A, x, case.n), act_on_gradient(A, case.egrad(x), case.n))
    assert relative(moved, act(A, gradient, case.n)) < case.tolerance


def the_gradient_of_any_function_is_horizontal(case: Case) -> None:
    """Also where the function is not one of G H': then it is the part of the gradient that the quotient sees."""
    manifold, x = case.setting()
    gradient = manifold.egrad2rgrad(x, x)  # of |x|^2 / 2
    xi = case.horizontal(manifold, x)
    scale = manifold.norm(x, gradient) * manifold.norm(x, xi) + (x * xi).abs().sum((-2, -1))
    difference = inner_by_inverses(case, x, gradient, xi) - (x.double() * xi.double()).sum((-2, -1))
    assert float((difference / scale).abs().max()) < case.tolerance
    assert manifold.check_vector_on_tangent(x, gradient, atol=10 * case.tolerance, rtol=10 * case.tolerance)


def transport_is_horizontal_linear_and_equivariant(case: Case) -> None:
    manifold, x = case.setting()
    u, v, w = (case.horizontal(manifold, x, stream=stream) for stream in (2, 3, 4))
    y = manifold.retr(x, u)
    there = manifold.transp(x, y, v)
    assert manifold.check_vector_on_tangent(y, there, atol=0, rtol=10 * case.tolerance)
    assert relative(manifold.transp(x, x, v), v) < case.tolerance
    both = manifold.transp(x, y, v + 2 * w)
    assert relative(both, there + 2 * manifold.transp(x, y, w)) < case.tolerance
    for along in (manifold.retr_transp, manifold.expmap_transp):
        end, carried = along(x, u, v)
        assert torch.equal(end, y)
        assert torch.equal(carried, there)
    for follow in (manifold.transp_follow_retr, manifold.transp_follow_expmap):
        assert torch.equal(follow(x, u, v), there)
    A = case.group_element()
    moved = manifold.transp(*(act(A, t, case.n) for t in (x, y, v)))
    assert relative(moved, act(A, there, case.n)) < case.tolerance


def a_batch_is_its_members(case: Case) -> None:
    manifold, x = case.setting()
    u, v, g = case.horizontal(manifold, x), case.ambient(x, stream=3), case.egrad(x)
    together = (manifold.inner(x, u, v), manifold.proju(x, v), manifold.egrad2rgrad(x, g), manifold.expmap(x, u))
    for index in itertools.product(*(range(k) for k in case.batch)):
        x1, u1, v1, g1 = (t[index] for t in (x, u, v, g))
        apart = (
            manifold.inner(x1, u1, v1),
            manifold.proju(x1, v1),
            manifold.egrad2rgrad(x1, g1),
            manifold.expmap(x1, u1),
        )
        for one, all_of_them in zip(apart, together, strict=True):
            assert relative(one, all_of_them[index]) < case.tolerance


def float32_is_float64_rounded(case: Case) -> None:
    manifold, x = case.setting()
    u = case.horizontal(manifold, x)
    for operation in (manifold.expmap, manifold.proju, manifold.egrad2rgrad, manifold.inner):
        small, large = operation(x, u), operation(x.double(), u.double())
        assert small.dtype == case.dtype
        assert large.dtype == torch.float64
        assert float((small.double() - large).abs().max()) <= 2 * torch.finfo(case.dtype).eps * float(large.abs().max())


PROPERTIES = (
    the_point_and_its_tangents_pass_the_checks,
    inner_is_the_metric,
    projection_is_orthogonal_onto_the_horizontal_space,
    projection_has_the_rank_of_the_quotient,
    the_geodesic_has_its_declared_order,
    geodesics_commute_with_the_group,
    the_gradient_is_the_gradient,
    the_gradient_of_any_function_is_horizontal,
    transport_is_horizontal_linear_and_equivariant,
    a_batch_is_its_members,
    float32_is_float64_rounded,
)
