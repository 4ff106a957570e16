"""A task in a user's Python file: three functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from quotientgeo.errors import QuotientgeoError, TaskError
from quotientgeo.measures.batches import fixed_batches
from quotientgeo.tasks.protocol import Batch
from quotientgeo.tasks.python_file import describe, run_file

# function -> its arguments, in order
FUNCTIONS = {"load": ("checkpoint",), "batches": ("data",), "loss": ("model", "batch")}


@dataclass(frozen=True)
class FileTask:
    """The functions of one task file, checked: a model is a model, batches are a fixed list.

    digest: sha256 of the text that was run.
    """

    path: Path
    module: ModuleType
    digest: str = ""

    @property
    def definitions(self) -> dict[str, Any]:
        """What a result says about its task."""
        return {"task": str(self.path), "task_digest": self.digest}

    @property
    def notes(self) -> list[str]:
        """Nothing: what a task file leaves out only its author knows."""
        return []

    def load(self, checkpoint: str) -> nn.Module:
        """The model that the file's ``load(checkpoint)`` returns. Raises TaskError where it fails or returns another thing."""
        model = self._call("load", checkpoint)
        if not isinstance(model, nn.Module):
            raise TaskError(f"{self.path}: load(checkpoint) must return a torch module, got {type(model).__name__}")
        return model

    def batches(self, data: str) -> list[Batch]:
        """All batches of the file's ``batches(data)``, as a list.

        Raises DataError where there are none or a DataLoader shuffles them, TaskError where the function fails.
        """
        return self._call("batches", data, then=fixed_batches)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor] | Tensor:
        """The file's ``loss(model, batch)``. Raises TaskError, with the line, where it fails."""
        try:
            return self.module.loss(model, batch)
        except QuotientgeoError:
            raise
        except Exception as error:
            raise TaskError(f"{self.path}: loss(model, batch) failed: {describe(error, self.path)}") from error

    def _call(self, function: str, argument: str, then: Callable[[Any], Any] = lambda found: found) -> Any:
        """Call, then consume the answer (a generator fails while it is consumed)."""
        try:
            return then(getattr(self.module, function)(argument))
        except QuotientgeoError:
            raise
        except Exception as error:
            raise TaskError(f"{self.path}: {function}({argument!r}) failed: {describe(error, self.path)}") from error


def load_task_file(path: str | Path) -> FileTask:
    """The task in the Python file ``path``, which defines ``load(checkpoint)``, ``batches(data)`` and ``loss(model, batch)``.

    The file runs once, as a module of a name of its own. Raises TaskError where it is not a Python file, does not run, or
    lacks a function.
    """

    def check(module: ModuleType) -> None:
        missing = [name for name in FUNCTIONS if not callable(getattr(module, name, None))]
        if missing:
            raise TaskError(f"task file {path} does not define {_wanted(missing)}")
        for name, arguments in FUNCTIONS.items():
            _require_arguments(Path(path), getattr(module, name), name, arguments)

    ran = run_file(path, "task file", _wanted(FUNCTIONS), check=check)
    return FileTask(ran.path, ran.module, ran.digest)


def _require_arguments(path: Path, function: Callable[..., Any], name: str, arguments: tuple[str, ...]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a callable of C code has none
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise TaskError(
            f"task file {path}: {name}{signature} cannot be called as {name}({', '.join(arguments)}): {error}"
        ) from error


def _wanted(names: Any) -> str:
    calls = [f"{name}({', '.join(FUNCTIONS[name])})" for name in names]
    return " and ".join(filter(None, (", ".join(calls[:-1]), calls[-1])))
