"""What a loss and its data are: a task loads a checkpoint, makes the fixed batches and computes the loss of one batch."""

from quotientgeo.tasks.file import FileTask, load_task
from quotientgeo.tasks.precision import converted
from quotientgeo.tasks.protocol import Task

__all__ = ["FileTask", "Task", "converted", "load_task"]
