"""A task by its name, or by the path of a Python file."""

from __future__ import annotations

import difflib
from pathlib import Path

from quotientgeo.errors import TaskError
from quotientgeo.tasks.checkpoint_task import CheckpointTask
from quotientgeo.tasks.file import FileTask, load_task_file
from quotientgeo.tasks.image_classification import ImageClassification
from quotientgeo.tasks.masked_lm import MaskedLM
from quotientgeo.tasks.options import DataOptions
from quotientgeo.tasks.text_classification import TextClassification

BUILT_IN: dict[str, type[CheckpointTask]] = {
    task.name: task for task in (TextClassification, ImageClassification, MaskedLM)
}


def load_task(task: str | Path, options: DataOptions | None = None) -> FileTask | CheckpointTask:
    """The built-in task of this name (text-classification, image-classification, masked-lm), or the one in a Python file.

    options: how a built-in task reads its data; a file reads it in its own way.
    Raises TaskError for a name that there is not, a file that is not a task, or options for a file.
    """
    name = str(task)
    if isinstance(task, str) and name in BUILT_IN:
        return BUILT_IN[name](options)
    path = Path(task)
    if isinstance(task, str) and path.name == name and not path.suffix and not path.exists():
        raise _unknown(name)
    if options is not None:
        raise TaskError(
            f"task file {path} reads its data itself: batch size, limit, columns and the like are set in the file"
        )
    return load_task_file(path)


def _unknown(name: str) -> TaskError:
    simple = name.casefold().replace("_", "-").replace(" ", "-")
    close = difflib.get_close_matches(simple, BUILT_IN, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return TaskError(f"there is no task {name!r}: {hint}tasks are {', '.join(BUILT_IN)}, or a Python file (FILE.py)")
