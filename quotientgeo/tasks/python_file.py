"""A user's Python file: run once as a module of a name of its own, without touching ``sys.path`` or writing beside the file."""

from __future__ import annotations

import hashlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from quotientgeo.errors import QuotientgeoError, TaskError, one_line


@dataclass(frozen=True)
class PythonFile:
    """A file that has run. digest: sha256 of the text that ran, whatever the file holds later."""

    path: Path
    module: ModuleType
    digest: str


def run_file(
    path: str | Path,
    what: str,
    defines: str,
    *,
    check: Callable[[ModuleType], None] = lambda module: None,
    error: type[QuotientgeoError] = TaskError,
) -> PythonFile:
    """Run the Python file ``path`` and ``check`` its module.

    what: what the file is called in messages ("task file"); defines: what it is for. Raises ``error`` where it is not a Python
    file, does not run or ``check`` fails; ``sys.modules`` is then as it was.
    """
    path = Path(path)
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise error(f"{what} {path} {state}: it is a Python file that defines {defines}")
    if path.suffix != ".py":
        raise error(f"{what} {path} is not a Python file (.py) that defines {defines}")
    try:
        source = path.read_bytes()
    except OSError as failure:
        raise error(f"{what} {path} cannot be read: {failure.strerror}") from failure
    module = _new_module(path)
    with _registered(module):
        try:
            exec(compile(source, str(module.__file__), "exec"), module.__dict__)
        except (Exception, SystemExit) as failure:
            raise error(f"{what} {path} does not run: {describe(failure, path)}") from failure
        check(module)
    return PythonFile(path, module, hashlib.sha256(source).hexdigest())


def describe(error: BaseException, path: Path) -> str:
    """Kind and words of an error, with the last line of the file ``path`` that led to it."""
    words = one_line(error)
    shown = f"{type(error).__name__}: {words}" if words else type(error).__name__
    if isinstance(error, ModuleNotFoundError) and error.name and (path.parent / f"{error.name}.py").exists():
        shown += f"; {error.name}.py lies beside it, but is imported only from where Python looks: put its folder on PYTHONPATH"
    lines = lines_in(error, path)
    if isinstance(error, SyntaxError) or not lines:
        return shown  # Python's own words for a syntax error end with file and line
    return f"{shown} (line {lines[-1]} of {path.name})"


def lines_in(error: BaseException, path: Path) -> list[int | None]:
    """Lines of the file ``path`` that were being run when the error came up; none where it is nothing of that file's doing."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame.lineno for frame in frames if frame.filename == str(path.resolve())]


def _new_module(path: Path) -> ModuleType:
    """An empty module whose name no other file can have."""
    resolved = str(path.resolve())
    digest = hashlib.sha256(resolved.encode()).hexdigest()[:12]
    module = ModuleType(f"quotientgeo_file_{re.sub('[^0-9a-zA-Z_]', '_', path.stem)}_{digest}")
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
