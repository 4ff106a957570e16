"""Hugging Face folders of tiny models, complete with tokenizer or image processor, and data files for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.helpers.models import randomised

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "was", "the", "it", "not", "very"]
CLASSES = {"bad": 0, "good": 1, "Neutral": 2}
REVIEWS = "text,label\nthe film was good,good\nit was not good,bad\nthe film was not very bad,neutral\na film,NEUTRAL\n"


def text_folder(folder: Path, name: str, *, dtype: torch.dtype = torch.float32, **changes: Any) -> Path:
    """A BERT with random weights of the class ``name``, and a vocabulary of 14 words."""
    import transformers

    sizes = {"vocab_size": len(WORDS), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 24, "max_position_embeddings": 20}
    if name.endswith("SequenceClassification"):
        sizes |= {"id2label": {i: label for label, i in CLASSES.items()}, "label2id": CLASSES}  # type: ignore[dict-item]
    config = transformers.BertConfig(**(sizes | changes))
    saved(randomised(getattr(transformers, name)(config)), folder, dtype)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return folder


def image_checkpoint(folder: Path, *, channels: int = 1, **changes: Any) -> Path:
    """A ViT with random weights for 8 x 8 images of three classes, and its image processor: (x / 255 - 0.5) / 0.5."""
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    sizes |= {"image_size": 8, "patch_size": 4, "num_channels": channels, "num_labels": 3}
    saved(randomised(ViTForImageClassification(ViTConfig(**(sizes | changes)))), folder)
    processor = {"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}, "resample": 2}
    processor |= {"do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}
    processor |= {"image_mean": [0.5] * channels, "image_std": [0.5] * channels}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def saved(model: Any, folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    """The model as a folder, without bars on the screen."""
    from safetensors.torch import save_model

    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    save_model(model.to(dtype), str(folder / "model.safetensors"), metadata={"format": "pt"})
    return folder


def image_data(folder: Path, counts: dict[str, int], size: int = 8) -> Path:
    """Grey images of random pixels: ``counts[name]`` of them in the folder of class ``name``."""
    from PIL import Image

    for k, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            pixels = np.random.default_rng(100 * k + i).integers(0, 256, (size, size), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i}.png")
    return folder
