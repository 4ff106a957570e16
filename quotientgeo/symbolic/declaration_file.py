"""What a Python file declares: its symmetry and its metrics. Loads SymPy only when it reads one."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from quotientgeo.errors import DeclarationError

if TYPE_CHECKING:
    from quotientgeo.symbolic.declaration import Metric, Symmetry

DEFINES = "symmetry (a quotientgeo.Symmetry) and metric (a quotientgeo.Metric) or metrics (a list of them)"


def read_declaration(path: Path, module: ModuleType) -> tuple[Symmetry, list[Metric]]:
    """The symmetry and the metrics that ``module`` defines, whose file ``path`` has run.

    Raises:
        DeclarationError: it does not define them, or two of its metrics have the same name.
    """
    from quotientgeo.symbolic.declaration import Metric, Symmetry

    found = [name for name, value in vars(module).items() if isinstance(value, Symmetry | Metric)]
    shown = f" (found: {', '.join(found)})" if found else ""
    if not hasattr(module, "symmetry"):
        raise DeclarationError(f"{path} defines no `symmetry`{shown}: it must define {DEFINES}")
    if not (hasattr(module, "metric") or hasattr(module, "metrics")):
        raise DeclarationError(f"{path} defines no `metric` and no `metrics`{shown}: it must define {DEFINES}")
    symmetry = getattr(module, "symmetry", None)
    metrics = getattr(module, "metrics", None)
    if metrics is None:
        metrics = [getattr(module, "metric", None)]
    if not isinstance(symmetry, Symmetry):
        raise DeclarationError(f"{path} must define {DEFINES}; its symmetry is of type {type(symmetry).__name__}")
    if not isinstance(metrics, list | tuple) or not metrics:
        raise DeclarationError(f"{path} must define {DEFINES}; its metrics are {metrics!r:.80}")
    for metric in metrics:
        if not isinstance(metric, Metric):
            raise DeclarationError(f"{path} must define {DEFINES}; found a metric of type {type(metric).__name__}")
    names: dict[str, str] = {}
    for metric in metrics:
        same = names.get(metric.name.casefold())
        if same == metric.name:
            raise DeclarationError(f"{path} declares more than one metric of the name {same!r}: each becomes a folder")
        if same is not None:
            raise DeclarationError(
                f"{path} declares metrics {same!r} and {metric.name!r}: each becomes a folder, and some disks do not tell "
                "capital letters; rename one"
            )
        names[metric.name.casefold()] = metric.name
    return symmetry, list(metrics)
