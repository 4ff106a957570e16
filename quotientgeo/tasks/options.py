"""What a built-in task may be told about its data."""

from __future__ import annotations

from dataclasses import dataclass

from quotientgeo.errors import ArgumentError


@dataclass(frozen=True)
class DataOptions:
    """batch_size: examples of one batch (m). limit: the first so many examples of the data, None for all of them.

    max_length: tokens of one text; what is longer is cut, and the result says how many were. text_column: its name in a table,
    or two names with a comma between them for pairs of texts. label_column: its name in a table. None: the usual names.
    seed: draws the masks of masked-lm.
    """

    batch_size: int = 16
    limit: int | None = 128
    max_length: int = 128
    text_column: str | None = None
    label_column: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 1), ("limit", 1), ("max_length", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is None and name == "limit":
                continue
            if type(value) is not int or value < least:
                raise ArgumentError(f"{name} must be an int >= {least}, got {value!r} of type {type(value).__name__}")
