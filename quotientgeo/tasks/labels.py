"""From what a data file calls a class to its index in the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quotientgeo.errors import DataError, TaskError, some_of

_MOST_NAMED = 10
_WHOLE = re.compile(r"([+-]?\d+)(\.0+)?")
_UNNAMED = re.compile(r"LABEL_\d+")  # what transformers calls a class that nobody has named
NAMES, INDICES, BOTH = "class names", "indices", "class names, which are the indices"


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

    def indices(self, values: Sequence[Any], places: Sequence[str]) -> tuple[list[int], str]:
        """The classes of all labels of a file, and how they were read: all of them as names, or all of them as indices.

        A name may be written in other letters' case where one class alone answers to it. places: where each label stands.
        Raises DataError where a label is no class, where some are names and others indices, and where both readings fit all
        labels but are not the same classes.
        """
        named = [self._by_name(value) for value in values]
        numbered = [self._by_number(value) for value in values]
        for value, place, *found in zip(values, places, named, numbered, strict=True):
            if found == [None, None]:
                raise DataError(self._no_class(value, place))
        names, numbers = ([index for index in found if index is not None] for found in (named, numbered))
        if len(names) < len(values) and len(numbers) < len(values):
            one, other = numbered.index(None), named.index(None)
            raise DataError(
                f"{places[one]} has the label {_text(values[one])!r}, a class name, but {places[other]} has "
                f"{_text(values[other])!r}, which is an index only: use names throughout, or indices: {self._listed()}"
            )
        if len(names) < len(values):
            return numbers, INDICES
        if len(numbers) < len(values):
            return names, NAMES
        for value, place, name, number in zip(values, places, names, numbers, strict=True):
            if name != number and not isinstance(value, bool):  # True is a number only where no class is called so
                raise DataError(
                    f"{place} has the label {_text(value)!r}, which is the name of class {name} and the index of class "
                    f"{number}, and all labels can be read either way: rename the classes (id2label in config.json) to what "
                    "is no number, and use these names or the indices as labels"
                )
        return names, BOTH if names == numbers else NAMES

    def name(self, index: int) -> str:
        """What the config calls a class."""
        return next((name for name, known in self.names.items() if known == index), str(index))

    def could_mislead(self, reading: str) -> bool:
        """Whether some class is called by a number that is not its index, so that a reader must know the reading."""
        odd = any(_WHOLE.fullmatch(name) and int(float(name)) != index for name, index in self.names.items())
        return odd and reading != BOTH

    def _by_name(self, value: Any) -> int | None:
        text = _text(value)
        whole = _WHOLE.fullmatch(text)
        spellings = (text, str(int(whole.group(1)))) if whole else (text,)  # tables may write 1 as 1.0
        for spelling in spellings:
            if spelling in self.names:
                return self.names[spelling]
        alike = {index for name, index in self.names.items() if name.casefold() == text.casefold()}
        return alike.pop() if len(alike) == 1 else None

    def _by_number(self, value: Any) -> int | None:
        whole = _WHOLE.fullmatch(str(int(value)) if isinstance(value, bool) else _text(value))
        return int(whole.group(1)) if whole and 0 <= int(whole.group(1)) < self.count else None

    def _no_class(self, value: Any, place: str) -> str:
        text = _text(value)
        if not text:
            return f"{place} has no label"
        unnamed = self.names and all(_UNNAMED.fullmatch(name) for name in self.names)
        fix = "; set id2label in config.json to the names of the classes, or use numbers as labels" if unnamed else ""
        return f"{place} has the label {text!r}, which is none of this checkpoint's classes: {self._listed()}{fix}"

    def _listed(self) -> str:
        names = sorted(self.names, key=lambda name: self.names[name])
        shown = some_of(names, _MOST_NAMED)
        numbers = f"a number from 0 to {self.count - 1}"
        return f"{shown}, or {numbers}" if names else numbers


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
