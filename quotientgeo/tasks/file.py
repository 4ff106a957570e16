"""A task in a user's Python file: three functions, read without touching ``sys.path`` or writing beside the file."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from quotientgeo.errors import QuotientgeoError, TaskError
from quotientgeo.measures.batches import fixed_batches
from quotientgeo.tasks.protocol import Batch

# function -> its arguments, in order
FUNCTIONS = {"load": ("checkpoint",), "batches": ("data",), "loss": ("model", "batch")}


@dataclass(frozen=True)
class FileTask:
    """The functions of one task file, checked: a model is a model, batches are a fixed list."""

    path: Path
    module: ModuleType

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
        """The file's ``loss(model, batch)``, called as it is."""
        return self.module.loss(model, batch)

    def _call(self, function: str, argument: str, then: Callable[[Any], Any] = lambda found: found) -> Any:
        """Call, then consume the answer (a generator fails while it is consumed)."""
        try:
            return then(getattr(self.module, function)(argument))
        except QuotientgeoError:
            raise
        except Exception as error:
            raise TaskError(f"{self.path}: {function}({argument!r}) failed: {_describe(error, self.path)}") from error


def load_task(path: str | Path) -> FileTask:
    """The task in the Python file ``path``, which defines ``load(checkpoint)``, ``batches(data)`` and ``loss(model, batch)``.

    The file runs once, as a module of a name of its own. Raises TaskError where it is not a Python file, does not run, or
    lacks a function.
    """
    path = Path(path)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise TaskError(f"task file {path} {what}: a task is a Python file that defines {_wanted(FUNCTIONS)}")
    if path.suffix != ".py":
        raise TaskError(f"task file {path} is not a Python file (.py) that defines {_wanted(FUNCTIONS)}")
    module = _new_module(path)
    with _registered(module):
        _run(path, module)
        missing = [name for name in FUNCTIONS if not callable(getattr(module, name, None))]
        if missing:
            raise TaskError(f"task file {path} does not define {_wanted(missing)}")
        for name, arguments in FUNCTIONS.items():
            _require_arguments(path, getattr(module, name), name, arguments)
    return FileTask(path, module)


def _new_module(path: Path) -> ModuleType:
    """An empty module whose name no other file can have."""
    resolved = str(path.resolve())
    digest = hashlib.sha256(resolved.encode()).hexdigest()[:12]
    module = ModuleType(f"quotientgeo_task_{re.sub('[^0-9a-zA-Z_]', '_', path.stem)}_{digest}")
    module.__file__ = resolved
    return module


@contextmanager
def _registered(module: ModuleType) -> Iterator[None]:
    """Put a module where dataclasses and pickle look it up; if the block fails, leave ``sys.modules`` as it was."""
    name = module.__name__
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        yield
    except BaseException:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise


def _run(path: Path, module: ModuleType) -> None:
    try:
        exec(compile(path.read_bytes(), str(module.__file__), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise TaskError(f"task file {path} does not run: {_describe(error, path)}") from error


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


def _describe(error: BaseException, path: Path) -> str:
    """Kind and words of an error, with the last line of the task file that led to it."""
    words = " ".join(str(error).split())
    shown = f"{type(error).__name__}: {words}" if words else type(error).__name__
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path.resolve())
    ]
    if isinstance(error, SyntaxError) or not lines:
        return shown  # Python's own words for a syntax error end with file and line
    return f"{shown} (line {lines[-1]} of {path.name})"
