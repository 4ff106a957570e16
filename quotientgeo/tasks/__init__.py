"""What a loss and its data are: a task loads a checkpoint, makes the fixed batches and computes the loss of one batch."""

from quotientgeo.model.checkpoint import require_folder
from quotientgeo.model.saving import require_free
from quotientgeo.tasks.checkpoint_task import CheckpointTask, quiet_transformers
from quotientgeo.tasks.file import FileTask
from quotientgeo.tasks.inputs import difference, random_inputs
from quotientgeo.tasks.load import BUILT_IN, load_task
from quotientgeo.tasks.options import DataOptions
from quotientgeo.tasks.precision import Converted, converted
from quotientgeo.tasks.protocol import Task
from quotientgeo.tasks.python_file import PythonFile, describe, lines_in, run_file

__all__ = [
    "BUILT_IN",
    "CheckpointTask",
    "Converted",
    "DataOptions",
    "FileTask",
    "PythonFile",
    "Task",
    "converted",
    "describe",
    "difference",
    "lines_in",
    "load_task",
    "quiet_transformers",
    "random_inputs",
    "require_folder",
    "require_free",
    "run_file",
]
