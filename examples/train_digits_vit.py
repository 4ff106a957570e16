"""Train the small vision transformer that `quotientgeo demo` measures, and write it with its digits.

    python examples/train_digits_vit.py OUT

Needs transformers and scikit-learn, and a minute of one core. OUT then holds

    digits-vit/     a Hugging Face folder: config.json, model.safetensors, preprocessor_config.json
    digits/         200 of the training digits, in a folder for each class: sharpness is measured on these
    held-out/       100 digits that were not trained on
    README.md       where it all comes from

The digits are those of scikit-learn's load_digits (1,797 images of 8 x 8 pixels). A fifth of them is held out, drawn at random.
What is minimised is the mean cross-entropy under dropout, by Adam with a step size that falls to zero. There is no weight decay:
a sum of squares of both factors of a head is least where their product loses rank, and some heads of such a training do.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

SEED = 0
EPOCHS = 100
BATCH_SIZE = 64
RATE = 2e-3
HELD_OUT = 360
KEPT = {"digits": 20, "held-out": 10}  # images written of each class
GREYS = 15  # a pixel of load_digits is 0 to 16; 15 times that fits one byte and loses nothing
MEAN = STD = 0.5
SIZES = {"hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 96}
DROPOUT = 0.1
IMAGES = {"image_size": 8, "patch_size": 2, "num_channels": 1}
README = """# Digits, and a small vision transformer that reads them

`digits-vit`: ViTForImageClassification, {parameters:,} parameters, trained by examples/train_digits_vit.py of quotientgeo
on {trained:,} digits. Cross-entropy and accuracy: {here:.4f} and {right:.3f} on these, {there:.3f} and {held:.3f} on {held_out}
held-out ones. Apache-2.0.

`digits`, `held-out`: {kept} images of 8 x 8 pixels, some of the digits trained on and some of the others. They come from
"Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak (1998), UCI Machine Learning Repository,
https://doi.org/10.24432/C50P49, licensed under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/), as distributed
with scikit-learn (load_digits). Changed: written as PNG, pixel values times {greys}.
"""


class Digits(NamedTuple):
    """grey: (images, 8, 8) bytes; labels: (images,)."""

    grey: np.ndarray
    labels: np.ndarray

    @property
    def pixels(self) -> Tensor:
        """What the model sees, as its preprocessor_config.json makes it from the files; (images, 1, 8, 8)."""
        return torch.tensor((self.grey / 255 - MEAN) / STD, dtype=torch.float32)[:, None]

    @property
    def classes(self) -> Tensor:
        return torch.tensor(self.labels)


def read_digits() -> tuple[Digits, Digits]:
    """Training and held-out digits; every class is in both by its share."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    found = load_digits()
    grey = (found.images * GREYS).astype(np.uint8)
    parts = train_test_split(grey, found.target, test_size=HELD_OUT, random_state=SEED, stratify=found.target)
    return Digits(parts[0], parts[2]), Digits(parts[1], parts[3])


def build() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    names = {str(digit): digit for digit in range(10)}
    labels = {"label2id": names, "id2label": {index: name for name, index in names.items()}}
    torch.manual_seed(SEED)
    return ViTForImageClassification(ViTConfig(**SIZES, **IMAGES, **labels, hidden_dropout_prob=DROPOUT))


def train(model: nn.Module, digits: Digits, epochs: int) -> None:
    """Adam with a step size that rises for a tenth of the time and then falls to zero."""
    pixels, classes = digits.pixels, digits.classes
    per_epoch = len(classes) // BATCH_SIZE
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=epochs * per_epoch, pct_start=0.1)
    model.train()
    for epoch in range(1, epochs + 1):
        order = torch.randperm(len(classes))[: per_epoch * BATCH_SIZE]
        for at in order.split(BATCH_SIZE):
            loss = cross_entropy(model(pixels[at]).logits, classes[at])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        if epoch % 10 == 0 or epoch == epochs:
            print(f"epoch {epoch}: loss {loss.item():.4f} on the last batch", flush=True)
    model.eval()


def judge(model: nn.Module, digits: Digits) -> tuple[float, float]:
    """Mean cross-entropy, and share of the digits that are read right."""
    with torch.no_grad():
        logits = model(digits.pixels).logits
    right = (logits.argmax(1) == digits.classes).double().mean()
    return cross_entropy(logits, digits.classes).item(), right.item()


def write_model(model: nn.Module, folder: Path) -> None:
    model.save_pretrained(folder)
    processor = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": 8, "width": 8}}
    processor |= {"resample": 2, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}
    processor |= {"image_mean": [MEAN], "image_std": [STD]}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=2) + "\n")


def write_images(digits: Digits, folder: Path, count: int) -> None:
    """The first ``count`` images of each class, as folder/CLASS/NUMBER.png."""
    from PIL import Image

    for label in range(10):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        for number, grey in enumerate(digits.grey[digits.labels == label][:count]):
            Image.fromarray(grey).save(folder / str(label) / f"{number:02}.png", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a ViT on 8 x 8 digits and write it with its digits.")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write; files in it are replaced")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    training, held_out = read_digits()
    model = build()
    train(model, training, options.epochs)
    (here, right), (there, held) = judge(model, training), judge(model, held_out)
    print(f"trained on: loss {here:.4f}, accuracy {right:.4f}; held out: loss {there:.4f}, accuracy {held:.4f}")
    write_model(model, options.out / "digits-vit")
    write_images(training, options.out / "digits", KEPT["digits"])
    write_images(held_out, options.out / "held-out", KEPT["held-out"])
    numbers = {"parameters": sum(p.numel() for p in model.parameters()), "trained": len(training.labels)}
    numbers |= {"held_out": HELD_OUT, "kept": 10 * sum(KEPT.values()), "greys": GREYS}
    text = README.format(**numbers, here=here, right=right, there=there, held=held)
    (options.out / "README.md").write_text(text)
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
