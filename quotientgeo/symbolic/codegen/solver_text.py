"""Text of the functions that a generated module gets where it solves linear equations at run time."""

from __future__ import annotations

HELPERS = {
    "_eigen": '''def _eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of a symmetric matrix; NaN where the matrix is not finite."""
    failed = ~matrix.isfinite().all(-1).all(-1)
    values, vectors = torch.linalg.eigh((matrix + matrix.mT).masked_fill(failed[..., None, None], 0.0) / 2)
    return values.masked_fill(failed[..., None], float("nan")), vectors''',
    "_pencil": '''def _pencil(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """(T, d) with T' one T = I and T' other T = diag(d), for positive definite matrices."""
    factor = _cholesky(one)
    half = torch.linalg.solve_triangular(factor, other, upper=False)
    values, vectors = _eigen(torch.linalg.solve_triangular(factor, half.mT, upper=False))
    return torch.linalg.solve_triangular(factor.mT, vectors, upper=True), values''',
    "_pencil_inverse": '''def _pencil_inverse(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """(T, d) with T' one^-1 T = I and T' other T = diag(d), for positive definite matrices."""
    factor = _cholesky(one)
    values, vectors = _eigen(factor.mT @ other @ factor)
    return factor @ vectors, values''',
    "_dot": '''def _dot(left: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> Tensor:
    """Sum of tr(x' y) over the pairs, with two axes of length 1."""
    return torch.stack([(x * y).sum(dim=(-2, -1), keepdim=True) for x, y in zip(left, right, strict=True)]).sum(0)''',
    "_units": '''def _units(like: Tensor, sign: int) -> Tensor:
    """Orthonormal basis (count, rows, columns) of the matrices; sign 1, -1: of the symmetric, the skew ones."""
    rows, columns = like.shape[-2:]
    units = torch.eye(rows * columns, dtype=like.dtype, device=like.device).reshape(-1, rows, columns)
    if sign:
        i, j = torch.triu_indices(rows, rows, offset=(1 - sign) // 2, device=like.device)
        units = units[i * columns + j] + sign * units[j * columns + i]
    return units / units.square().sum(dim=(-2, -1), keepdim=True).sqrt()''',
    "_matrix": '''def _matrix(still, given: tuple[Tensor, ...], signs: tuple[int, ...]) -> tuple[Tensor, list[Tensor]]:
    """The matrix of the operator in an orthonormal basis, and the basis: (count, rows, columns) for each part."""
    units = [_units(part, sign) for part, sign in zip(given, signs, strict=True)]
    count, batch = sum(map(len, units)), given[0].dim() - 2
    start, columns = 0, []
    for unit in units:
        padded = unit.new_zeros(count, *unit.shape[1:])
        padded[start : start + len(unit)] = unit
        start += len(unit)
        columns.append(padded)
    images = still(*(column.reshape(count, *(1,) * batch, *column.shape[1:]) for column in columns))
    blocks = [torch.einsum("b...rc,arc->...ab", x, y) for x, y in zip(images, columns, strict=True)]
    return torch.stack(blocks).sum(0), columns''',
    "_refined": '''def _refined(solve, moving, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Solves moving(X) = given where ``solve`` does, but carries no gradient of the operator.

    The two corrections give X its first and second derivatives, and remove rounding errors.
    """
    solution = solve(tuple(part.detach() for part in given))
    for _ in range(2):
        change = solve(tuple(a - b for a, b in zip(given, moving(*solution), strict=True)))
        solution = tuple(a + b for a, b in zip(solution, change, strict=True))
    return solution''',
    "_dense": '''def _dense(moving, still, given: tuple[Tensor, ...], signs: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Solves moving(X) = given by an eigendecomposition of the symmetric operator ``still``, which carries no gradient.

    Directions that the operator takes to zero are left out.
    """
    matrix, columns = _matrix(still, given, signs)
    values, vectors = _eigen(matrix)
    small = values <= values.shape[-1] * torch.finfo(values.dtype).eps * values[..., -1:]
    inverse = torch.where(small, 0.0, 1.0 / torch.where(small, 1.0, values))

    def solve(rest: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        shares = [torch.einsum("...rc,arc->...a", x, y) for x, y in zip(rest, columns, strict=True)]
        weights = torch.stack(shares).sum(0)
        weights = (vectors @ (inverse * (weights[..., None, :] @ vectors)[..., 0, :])[..., None])[..., 0]
        return tuple(torch.einsum("...a,arc->...rc", weights, y) for y in columns)

    return _refined(solve, moving, given)''',
    "_definite": '''def _definite(moving, still, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Solves moving(X) = given by a Cholesky factorisation of the operator ``still``, which carries no gradient.

    It is scaled to a unit diagonal first; NaN where it is not positive definite to working precision.
    """
    matrix, columns = _matrix(still, given, (0,) * len(given))
    scale = matrix.diagonal(dim1=-2, dim2=-1).rsqrt()
    factor = _cholesky(scale[..., :, None] * matrix * scale[..., None, :])

    def solve(rest: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        shares = [torch.einsum("...rc,arc->...a", x, y) for x, y in zip(rest, columns, strict=True)]
        weights = torch.stack(shares).sum(0)
        weights = scale * torch.cholesky_solve((scale * weights)[..., None], factor)[..., 0]
        return tuple(torch.einsum("...a,arc->...rc", weights, y) for y in columns)

    return _refined(solve, moving, given)''',
    "_gradients": '''def _gradients(still, given: tuple[Tensor, ...], steps: int) -> tuple[Tensor, ...]:
    """Solves still(X) = given by conjugate gradients: ``steps`` of them, and once more from there.

    What has converged stands still, so nothing waits for the device.
    """
    solution = tuple(0.0 * part for part in given)  # NaN stays
    goal = torch.finfo(given[0].dtype).eps ** 2 * _dot(given, given)
    for _ in range(2):
        rest = tuple(a - b for a, b in zip(given, still(*solution), strict=True))
        way, size = rest, _dot(rest, rest)
        for _ in range(steps):
            image = still(*way)
            bend = _dot(way, image)
            alive = (size > goal) & (bend > 0)
            step = torch.where(alive, size, 0.0) / torch.where(alive, bend, 1.0)
            solution = tuple(a + step * b for a, b in zip(solution, way, strict=True))
            rest = tuple(a - step * b for a, b in zip(rest, image, strict=True))
            before, size = torch.where(alive, size, 1.0), _dot(rest, rest)
            turn = torch.where(alive, size, 0.0) / before
            way = tuple(a + turn * b for a, b in zip(rest, way, strict=True))
    return solution''',
    "_Inverse": '''class _Inverse(torch.autograd.Function):
    """The inverse of a symmetric operator that carries no gradient, applied by conjugate gradients.

    It is its own transpose, so its derivative is applied the same way, and none of the steps is kept. ``inside`` projects on
    the space of matrices that the operator acts on.
    """

    @staticmethod
    def forward(ctx, still, inside, steps: int, *given: Tensor) -> tuple[Tensor, ...]:
        ctx.still, ctx.inside, ctx.steps = still, inside, steps
        return _gradients(still, given, steps)

    @staticmethod
    def backward(ctx, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, None, *_Inverse.apply(ctx.still, ctx.inside, ctx.steps, *ctx.inside(*slopes))''',
    "_iterated": '''def _iterated(moving, still, inside, given: tuple[Tensor, ...], steps: int) -> tuple[Tensor, ...]:
    """Solves moving(X) = given by conjugate gradients with ``still``, the same operator without a gradient.

    Rounding leaves the space that ``inside`` projects on, beyond which the operator may be anything. NaN where the steps do
    not converge.
    """

    def image(*X: Tensor) -> tuple[Tensor, ...]:
        return inside(*still(*X))

    given = inside(*given)
    solution = _refined(lambda rest: _Inverse.apply(image, inside, steps, *inside(*rest)), moving, given)
    rest = tuple(a - b for a, b in zip(given, image(*solution), strict=True))
    failed = _dot(rest, rest) > torch.finfo(given[0].dtype).eps * _dot(given, given)
    return tuple(part.masked_fill(failed, float("nan")) for part in solution)''',
}
