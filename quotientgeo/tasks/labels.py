"""From what a data file calls a class to its index in the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from quotientgeo.errors import DataError, TaskError

_MOST_NAMED = 10
_WHOLE = re.compile(r"([+-]?\d+)(\.0+)?")


@dataclass(frozen=True)
class Labels:
    """names: class name -> index (config.label2id); count: number of classes."""

    names: dict[str, int]
    count: int

    @classmethod
    def of(cls, config: Any, task: str) -> Labels:
        """The classes of a checkpoint. Raises TaskError where its outputs are no classes, or their names no index."""
        count = int(getattr(config, "num_labels", 0))
        kind = getattr(config, "problem_type", None)
        if count < 2 or kind not in (None, "single_label_classification"):
            what = f"problem_type {kind!r}" if kind is not None else f"{count} output(s)"
            raise TaskError(
                f"{task} needs a model that chooses one of several classes, but the config says {what}: write a task file"
            )
        names = {str(name): int(index) for name, index in (getattr(config, "label2id", None) or {}).items()}
        wrong = {name: index for name, index in names.items() if not 0 <= index < count}
        if wrong:
            name, index = next(iter(wrong.items()))
            raise TaskError(f"config.json maps the label {name!r} to {index}, but the model has {count} classes")
        return cls(names, count)

    def index(self, value: Any, where: str) -> int:
        """The class of a label: by its name, else its name in other letters' case, else as a whole number.

        Raises DataError, with ``where`` it stands and the classes there are.
        """
        text = "" if value is None else str(value).strip()
        if not text:
            raise DataError(f"{where} has no label")
        if text in self.names:
            return self.names[text]
        alike = {index for name, index in self.names.items() if name.casefold() == text.casefold()}
        if len(alike) == 1:
            return alike.pop()
        whole = _WHOLE.fullmatch(str(int(value)) if isinstance(value, bool) else text)
        if whole and 0 <= int(whole.group(1)) < self.count:
            return int(whole.group(1))
        raise DataError(f"{where} has the label {text!r}, which is none of this checkpoint's classes: {self._listed()}")

    def _listed(self) -> str:
        names = sorted(self.names, key=lambda name: self.names[name])
        shown = ", ".join(names[:_MOST_NAMED]) + (
            f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        )
        numbers = f"a number from 0 to {self.count - 1}"
        return f"{shown}, or {numbers}" if names else numbers
