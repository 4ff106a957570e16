"""What the built-in tasks have in common: the model of a Hugging Face folder with the right head, data cut into batches."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from quotientgeo.errors import QuotientgeoError, TaskError, one_line
from quotientgeo.model.checkpoint import load_checkpoint, require_folder
from quotientgeo.tasks.labels import Labels
from quotientgeo.tasks.options import DataOptions
from quotientgeo.tasks.protocol import Batch
from quotientgeo.tasks.text import LABEL_COLUMNS, TEXT_COLUMNS, Texts

NOT_ASKED = -100  # the label of a position that carries no loss
MOST_NAMED = 5  # examples named one by one
MANY_UNKNOWN = 0.1  # share of unknown tokens that is worth a remark


class CheckpointTask(ABC):
    """A task for any checkpoint of one kind. Per checkpoint: ``load``, then ``batches``.

    name: as on the command line. head: transformers' table of model classes for it, without MODEL_FOR_ and _MAPPING_NAMES.
    """

    name: ClassVar[str]
    head: ClassVar[str]
    unread: ClassVar[tuple[str, ...]] = ()  # options without effect on the task

    def __init__(self, options: DataOptions | None = None) -> None:
        self.options = options or DataOptions()
        self._about: dict[str, Any] = {}
        self._notes: list[str] = []
        self._loaded: tuple[Path, Any] | None = None

    @property
    def definitions(self) -> dict[str, Any]:
        """What a result says about its task: name, options, and what of the data was used."""
        return {"task": self.name, "task_options": asdict(self.options)} | self._about

    @property
    def notes(self) -> list[str]:
        """What of the data was not used as it stands."""
        return list(self._notes)

    def require(self, checkpoints: Sequence[str]) -> None:
        """Raises CheckpointError where one of them is no folder with a config.json: before any of them is measured."""
        for checkpoint in checkpoints:
            require_folder(checkpoint)

    def load(self, checkpoint: str) -> nn.Module:
        """The model in the folder ``checkpoint``, complete and in evaluation mode.

        Raises CheckpointError as ``load_checkpoint`` does, TaskError where the model has another head.
        """
        folder = Path(checkpoint)
        self._loaded = None
        with quiet_transformers():
            model = load_checkpoint(folder, self._class_if_unnamed(folder))
            self._require_head(model, folder)
            self._loaded = (folder, self.prepare(folder, model))
        return model

    def batches(self, data: str) -> list[Batch]:
        """Dicts of tensors with the examples on the leading axis, in the order of the data.

        Raises DataError where the data is missing, empty or does not fit, TaskError before ``load``.
        """
        if self._loaded is None:
            raise TaskError(
                f"{self.name}: batches(data) needs a checkpoint's own preprocessing: call load(checkpoint) first"
            )
        self._about, self._notes = {}, self._without_effect()
        with quiet_transformers():
            return self.read(Path(data), self._loaded[1])

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Sum of the cross-entropies of all positions that carry a label, and their number."""
        labels = batch["labels"]
        inputs = {key: value for key, value in batch.items() if key != "labels"}
        try:
            logits = model(**inputs).logits
        except QuotientgeoError:
            raise
        except Exception as error:
            shapes = ", ".join(f"{key} {tuple(value.shape)}" for key, value in inputs.items())
            words = one_line(error)
            raise TaskError(
                f"{self.name}: {type(model).__name__} failed on a batch of {shapes}: {type(error).__name__}: {words}"
            ) from error
        total = torch.nn.functional.cross_entropy(
            logits.flatten(0, -2), labels.flatten(), ignore_index=NOT_ASKED, reduction="sum"
        )
        return total, (labels != NOT_ASKED).sum()

    @abstractmethod
    def prepare(self, folder: Path, model: nn.Module) -> Any:
        """What ``read`` needs of a checkpoint beside its weights."""

    @abstractmethod
    def read(self, data: Path, prepared: Any) -> list[Batch]:
        """All batches of the data."""

    def used(self, examples: int, total: int, what: str = "examples") -> None:
        """Say in the result how much of the data was read."""
        self._about |= {"examples": examples, "examples_in_data": total}
        if examples < total:
            self._notes.append(f"the first {examples} of {total} {what} in the data (all of them: --limit 0)")

    def columns(self, found: Texts, label: str | None = None) -> None:
        """Say in the result which columns of a table were used, where others could have been meant, and what was empty."""
        self._about["text_columns"] = list(found.columns)
        meant = [("text", self.options.text_column, found.columns[0], TEXT_COLUMNS)]
        if label is not None:
            self._about["label_column"] = label
            meant.append(("label", self.options.label_column, label, LABEL_COLUMNS))
        for what, given, used, usual in meant:
            others = [repr(name) for name in usual if name in found.table.columns and name != used]
            if given is None and others:
                self._notes.append(
                    f"the {what}s are those of column {used!r}; there is {' and '.join(others)}, too (--{what}-column)"
                )
        if found.empty:
            self._about["examples"] -= len(found.empty)
            shown = ", ".join(map(str, found.empty[:MOST_NAMED])) + (", ..." if len(found.empty) > MOST_NAMED else "")
            self._notes.append(f"{len(found.empty)} examples have no text and were left out: {shown}")

    def labelled(self, labels: Labels, indices: Sequence[int], reading: str) -> None:
        """Say in the result how the labels were read, and that all are of one class where they are."""
        self._about["labels_read_as"] = reading
        if labels.could_mislead(reading):
            self._notes.append(
                f"classes are called by numbers that are not their indices: the labels were read as {reading}"
            )
        if len(indices) > 1 and len(set(indices)) == 1:
            self._notes.append(
                f"all {len(indices)} examples have class {labels.name(indices[0])}: where the data is sorted by class, shuffle "
                "it first or use all of it (--limit 0)"
            )

    def tokenised(self, texts: int, length: int, counts: Counter[str]) -> None:
        """Say in the result how many texts were cut, and how many tokens the checkpoint does not know."""
        cut, tokens, unknown = counts["cut"], counts["tokens"], counts["unknown"]
        self._about |= {"tokens_at_most": length, "texts_cut": cut, "tokens": tokens, "unknown_tokens": unknown}
        if cut:
            why = "--max-length" if length == self.options.max_length else "the model takes no more"
            self._notes.append(f"{cut} of {texts} texts are longer than {length} tokens and were cut there ({why})")
        if unknown > MANY_UNKNOWN * tokens:
            self._notes.append(
                f"{unknown} of {tokens} tokens are unknown to this checkpoint: are these texts of its kind?"
            )

    def _without_effect(self) -> list[str]:
        plain = DataOptions()
        given = [n for n in self.unread if getattr(self.options, n) != getattr(plain, n)]
        return [f"without effect on {self.name}: --{name.replace('_', '-')}" for name in given]

    def _class_if_unnamed(self, folder: Path) -> type[nn.Module] | None:
        """The class to build where config.json names none, or one with the heads of pre-training; else None: the one named."""
        try:
            config = json.loads((folder / "config.json").read_text())
            named, kind = config.get("architectures") or [], config.get("model_type")
        except (OSError, ValueError, AttributeError):
            return None  # load_checkpoint says what is wrong
        if named and not str(named[0]).endswith("ForPreTraining"):
            return None
        try:
            import transformers
        except ImportError:
            return None
        wanted = self._classes().get(kind)
        return getattr(transformers, wanted[0], None) if wanted else None

    def _require_head(self, model: nn.Module, folder: Path) -> None:
        if self.holds(type(model).__name__):
            return
        known = self._classes()
        wanted = known.get(getattr(getattr(model, "config", None), "model_type", ""))
        example = f", for instance {wanted[0]}" if wanted else ""
        fitting = [t.name for t in CheckpointTask.__subclasses__() if t.holds(type(model).__name__)]
        choose = f"the task {fitting[0]} fits this one" if fitting else "choose another task"
        raise TaskError(
            f"{folder} holds a {type(model).__name__}, but {self.name} needs a model with that head{example}: {choose}, "
            "or write a task file that adds the head"
        )

    @classmethod
    def holds(cls, name: str) -> bool:
        """Whether transformers' class of this name has the head of the task."""
        return any(name in names for names in cls._classes().values())

    @classmethod
    def _classes(cls) -> dict[str, tuple[str, ...]]:
        """transformers' classes with this head, by model_type."""
        from transformers.models.auto import modeling_auto

        table = getattr(modeling_auto, f"MODEL_FOR_{cls.head}_MAPPING_NAMES")
        return {kind: (names,) if isinstance(names, str) else tuple(names) for kind, names in table.items()}


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Errors only: no advice about back ends and lengths between the lines of a result."""
    try:
        from transformers.utils import logging
    except ImportError:  # load_checkpoint says how to install it
        yield
        return
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def groups(count: int, size: int) -> Iterator[slice]:
    """Slices of ``size`` that cover ``count`` examples; the last may be smaller."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
