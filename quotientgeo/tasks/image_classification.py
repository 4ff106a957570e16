"""image-classification: one class for each image, in a folder with one folder for each class."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from quotientgeo.errors import CheckpointError, DataError, one_line
from quotientgeo.tasks.checkpoint_task import CheckpointTask, groups
from quotientgeo.tasks.labels import Labels
from quotientgeo.tasks.protocol import Batch

ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})
PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # channels -> how PIL calls them


@dataclass(frozen=True)
class _Prepared:
    processor: Any
    labels: Labels
    mode: str


class ImageClassification(CheckpointTask):
    """Images (DATA/CLASS/file) under a model that chooses one class.

    The classes take turns: the first image of each, the second of each, and so on, so that a limit keeps them balanced.
    ``loss``: sum over the images of -log of the probability of the right class, and their number.
    """

    name = "image-classification"
    head = "IMAGE_CLASSIFICATION"
    unread = ("max_length", "text_column", "label_column")

    def prepare(self, folder: Path, model: nn.Module) -> _Prepared:
        config: Any = model.config
        channels = getattr(config, "num_channels", 3)
        if channels not in MODES:
            raise CheckpointError(f"{folder}: its config asks for images of {channels} channels: write a task file")
        return _Prepared(_processor(folder), Labels.of(config, self.name), MODES[channels])

    def read(self, data: Path, prepared: _Prepared) -> list[Batch]:
        files = list_images(data)
        chosen = files[: self.options.limit]
        places = [f"{data}: the folder of {path.name}" for path in chosen]
        indices, reading = prepared.labels.indices([path.parent.name for path in chosen], places)
        labels = torch.tensor(indices)
        images = _open(chosen)
        found = [
            {"pixel_values": _pixels(prepared, images, chosen, part), "labels": labels[part]}
            for part in groups(len(chosen), self.options.batch_size)
        ]
        self._about["image_processor"] = type(prepared.processor).__name__
        self.used(len(chosen), len(files), "images, class by class in turn,")
        self.labelled(prepared.labels, indices, reading)
        return found


def list_images(folder: Path) -> list[Path]:
    """Images below the class folders of ``folder``: the first of each class, the second of each, ..., by name.

    Raises DataError where there are none.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise DataError(
            f"{folder} {what}: image-classification reads a folder with one folder of images for each class"
        )
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    by_class = [sorted(p for p in path.iterdir() if p.suffix.lower() in ENDINGS and p.is_file()) for path in classes]
    found = [path for path in chain.from_iterable(zip_longest(*by_class)) if path is not None]
    if not found:
        deeper = [str(path) for path in classes if any(inner.is_dir() for inner in path.iterdir())]
        hint = f"; deeper folders are not read, did you mean {' or '.join(deeper[:3])}?" if deeper else ""
        raise DataError(f"{folder} holds no images in class folders ({folder / 'CLASS' / 'image.png'}){hint}")
    return found


def _processor(folder: Path) -> Any:
    """transformers' own image processor. By PIL, also where torchvision is installed: it rounds differently."""
    if not any((folder / name).is_file() for name in PROCESSOR_FILES):
        raise CheckpointError(
            f"{folder} has no {PROCESSOR_FILES[0]}, so size and normalisation of its images are unknown: copy that of the model, "
            "or write a task file"
        )
    from transformers import AutoImageProcessor

    try:
        return AutoImageProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False, backend="pil")
    except Exception as error:
        words = one_line(error)[:300]
        raise CheckpointError(f"{folder}: no image processor can be made from {PROCESSOR_FILES[0]}: {words}") from error


def _open(files: list[Path]) -> Any:
    """A dataset that decodes an image when it is asked for."""
    try:
        from datasets import Dataset, Image
    except ImportError as error:
        raise DataError("reading images needs datasets and pillow: pip install 'quotientgeo[hf]'") from error
    return Dataset.from_dict({"image": [str(path) for path in files]}).cast_column("image", Image())


def _pixels(prepared: _Prepared, images: Any, files: list[Path], part: slice) -> Tensor:
    """One batch (images, channels, height, width), as the model was trained on."""
    opened = []
    for index in range(part.start, part.stop):
        try:
            image = images[index]["image"]
            _require_bytes(image.mode, files[index])
            opened.append(image.convert(prepared.mode))
        except DataError:
            raise
        except Exception as error:
            words = one_line(error) or type(error).__name__
            raise DataError(f"{files[index]} cannot be read as an image: {words}") from error
    try:
        return prepared.processor(opened, return_tensors="pt")["pixel_values"]
    except Exception as error:
        words = one_line(error)[:300]
        raise DataError(
            f"the checkpoint's image processor failed on {prepared.mode} images, from {files[part.start]} on: {words}"
        ) from error


def _require_bytes(mode: str, file: Path) -> None:
    """Refuse pixels of more than 8 bits: PIL would cut all that is above 255 off, without a word."""
    if mode in ("I", "F") or mode.startswith("I;"):
        raise DataError(
            f"{file} holds pixels of more than 8 bits (PIL's mode {mode!r}), and what they mean as 0..255 is not known: "
            "convert it to 8 bits in the way in which the model's training images were, or write a task file"
        )
