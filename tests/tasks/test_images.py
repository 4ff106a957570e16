"""image-classification: which images, pixels and labels the loss sees, without torchvision."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from quotientgeo.errors import CheckpointError, DataError, TaskError
from quotientgeo.tasks import DataOptions, load_task
from quotientgeo.tasks.image_classification import list_images
from tests.helpers.folders import image_checkpoint, image_data


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_checkpoint(tmp_path_factory.mktemp("v") / "model")


def run(folder: Path, data: Path, **options: Any) -> tuple[Any, Any, list[Any]]:
    task = load_task("image-classification", DataOptions(**options))
    model = task.load(str(folder))
    return task, model, task.batches(str(data))


def test_classes_take_turns_in_the_order_of_names(tmp_path: Path) -> None:
    data = image_data(tmp_path / "d", {"b": 3, "a": 1, ".hidden": 2, "c": 2})
    (data / "a" / "notes.txt").write_text("no image")
    assert [f"{p.parent.name}{p.stem}" for p in list_images(data)] == ["a0", "b0", "c0", "b1", "c1", "b2"]


def test_pixels_are_scaled_and_normalised_as_the_processor_says(vit: Path, tmp_path: Path) -> None:
    data = image_data(tmp_path / "d", {"0": 2, "2": 2})
    task, model, batches = run(vit, data, batch_size=3)
    assert [batch["labels"].tolist() for batch in batches] == [[0, 2, 0], [2]]
    pixels = np.random.default_rng(100).integers(0, 256, (8, 8), dtype=np.uint8)  # the first image of class 2
    expected = torch.tensor((pixels / 255 - 0.5) / 0.5, dtype=torch.float32)
    assert batches[0]["pixel_values"].shape == (3, 1, 8, 8)
    torch.testing.assert_close(batches[0]["pixel_values"][1, 0], expected)
    total, count = task.loss(model, batches[0])
    logits = model(batches[0]["pixel_values"]).logits
    by_hand = -torch.log_softmax(logits, 1)[torch.arange(3), batches[0]["labels"]].sum()
    torch.testing.assert_close(total, by_hand)
    assert count == 3


def test_colour_for_grey_and_grey_for_colour(vit: Path, tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "d" / "1").mkdir(parents=True)
    colours = np.zeros((12, 10, 3), dtype=np.uint8)
    colours[..., 0] = 255
    Image.fromarray(colours).save(tmp_path / "d" / "1" / "red.jpg", quality=100)
    _, _, (grey,) = run(vit, tmp_path / "d")
    assert grey["pixel_values"].shape == (1, 1, 8, 8)  # resized, too
    assert float(grey["pixel_values"].mean()) == pytest.approx((76 / 255 - 0.5) / 0.5, abs=0.02)  # 0.299 of 255
    colour = image_checkpoint(tmp_path / "colour", channels=3)
    data = image_data(tmp_path / "greys", {"0": 1})
    _, _, (batch,) = run(colour, data)
    assert batch["pixel_values"].shape == (1, 3, 8, 8)
    assert torch.equal(batch["pixel_values"][0, 0], batch["pixel_values"][0, 2])


def test_names_of_classes_and_a_limit(tmp_path: Path) -> None:
    names = {"cat": 0, "dog": 1, "owl": 2}
    folder = image_checkpoint(tmp_path / "m", label2id=names, id2label={i: n for n, i in names.items()})
    data = image_data(tmp_path / "d", {"owl": 2, "Dog": 2})
    task, _, (batch,) = run(folder, data, limit=2)
    assert batch["labels"].tolist() == [1, 2]
    assert task.notes == ["the first 2 of 4 images, class by class in turn, in the data (all of them: --limit 0)"]
    image_data(tmp_path / "e", {"mouse": 1})
    with pytest.raises(DataError, match=r"the folder of 0\.png has the label 'mouse'.*cat, dog, owl"):
        run(folder, tmp_path / "e")


def test_torchvision_is_not_needed() -> None:
    """The other tests here mean something only where it is absent."""
    assert importlib.util.find_spec("torchvision") is None


def test_what_is_no_folder_of_images(vit: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    image_data(tmp_path / "deep" / "train", {"0": 1})
    for data, message in (
        ("nowhere", "does not exist"),
        ("file", "is a file"),
        ("empty", "no images in class folders"),
        ("deep", r"did you mean .*train\?"),
    ):
        with pytest.raises(DataError, match=message):
            run(vit, tmp_path / data)


def test_a_damaged_image_is_named(vit: Path, tmp_path: Path) -> None:
    data = image_data(tmp_path / "d", {"0": 2})
    (data / "0" / "1.png").write_bytes((data / "0" / "1.png").read_bytes()[:40])
    with pytest.raises(DataError, match=r"1\.png cannot be read as an image"):
        run(vit, data)


@pytest.mark.parametrize(
    ("dtype", "ending", "mode"),
    [("uint16", "png", "I;16"), ("uint16", "tif", "I;16"), ("int32", "tif", "I"), ("float32", "tif", "F")],
)  # fmt: skip
def test_pixels_of_more_than_8_bits_are_refused_not_cut_off(
    vit: Path, tmp_path: Path, dtype: str, ending: str, mode: str
) -> None:
    from PIL import Image

    data = image_data(tmp_path / "d", {"0": 1})
    deep = data / "0" / f"deep.{ending}"
    Image.fromarray(np.arange(64).reshape(8, 8).astype(dtype) * 1000).save(deep)
    with Image.open(deep) as image:
        assert image.mode == mode, "the case has lost its object"
    with pytest.raises(DataError, match=rf"deep\.{ending} holds pixels of more than 8 bits \(PIL's mode '{mode}'\)"):
        run(vit, data)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
def test_every_mode_of_8_bits_is_read(vit: Path, tmp_path: Path, mode: str) -> None:
    from PIL import Image

    grey = Image.fromarray((np.arange(64) % 2 * 255).astype(np.uint8).reshape(8, 8))
    (tmp_path / "d" / "0").mkdir(parents=True)
    grey.convert(mode).save(tmp_path / "d" / "0" / f"x.{'tif' if mode == 'CMYK' else 'png'}")
    _, _, (batch,) = run(vit, tmp_path / "d")
    expected = torch.from_numpy(np.array(grey) / 127.5 - 1).float()
    torch.testing.assert_close(batch["pixel_values"][0, 0], expected, atol=0.02, rtol=0)


def test_without_a_processor_pixels_mean_nothing(tmp_path: Path) -> None:
    folder = image_checkpoint(tmp_path / "m")
    path = folder / "preprocessor_config.json"
    settings = json.loads(path.read_text())
    path.unlink()
    with pytest.raises(CheckpointError, match=r"no preprocessor_config\.json"):
        load_task("image-classification").load(str(folder))
    path.write_text(json.dumps(settings | {"image_processor_type": "NoSuchProcessor"}))
    with pytest.raises(CheckpointError, match="no image processor can be made"):
        load_task("image-classification").load(str(folder))
    path.write_text(json.dumps(settings | {"image_mean": [0.5] * 3}))
    with pytest.raises(DataError, match="image processor failed on L images"):
        run(folder, image_data(tmp_path / "d", {"0": 1}))


def test_images_of_another_size_than_the_models(tmp_path: Path) -> None:
    folder = image_checkpoint(tmp_path / "m")
    path = folder / "preprocessor_config.json"
    path.write_text(path.read_text().replace('"height": 8, "width": 8', '"height": 16, "width": 16'))
    task, model, (batch,) = run(folder, image_data(tmp_path / "d", {"0": 1}))
    with pytest.raises(TaskError, match=r"pixel_values \(1, 1, 16, 16\): ValueError: Input image size"):
        task.loss(model, batch)
