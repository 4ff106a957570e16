"""Inputs that nobody chose, for comparing the functions of two models; and the comparison."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from quotientgeo.errors import TaskError
from quotientgeo.model.probe import Probe
from quotientgeo.model.scales import change

EXAMPLES, TOKENS = 4, 16


def random_inputs(model: nn.Module, seed: int = 0) -> dict[str, Tensor]:
    """A batch for a Hugging Face model: random tokens, of which the last example has a padded end, or random images.

    Raises TaskError where its main input is neither.
    """
    config: Any = getattr(model, "config", None)
    main = getattr(model, "main_input_name", None)
    generator = torch.Generator().manual_seed(seed)
    if config is None or main not in ("input_ids", "pixel_values"):
        raise TaskError(
            f"no inputs can be made up for {type(model).__name__}, whose main input is {main!r}: in Python, pass a batch "
            "of yours to graph.verify(batch)"
        )
    if main == "pixel_values":
        size = getattr(config, "image_size", None)
        height, width = (size, size) if isinstance(size, int) else tuple(size or (32, 32))
        shape = (EXAMPLES, int(getattr(config, "num_channels", 3)), height, width)
        return {"pixel_values": torch.randn(shape, generator=generator)}
    length = min(TOKENS, max(2, int(getattr(config, "max_position_embeddings", TOKENS) or TOKENS) - 2))
    ids = torch.randint(0, int(config.vocab_size), (EXAMPLES, length), generator=generator)
    pad = getattr(config, "pad_token_id", None)
    if pad is not None and 0 <= pad < config.vocab_size:  # in RoBERTa, positions are counted by what is no padding
        ids = torch.where(ids == pad, (pad + 1) % int(config.vocab_size), ids)
    batch = {"input_ids": ids}
    if "attention_mask" in inspect.signature(type(model).forward).parameters:
        mask = torch.ones_like(ids)
        mask[-1, length - length // 4 :] = 0
        batch["attention_mask"] = mask
        if pad is not None and 0 <= pad < config.vocab_size:
            batch["input_ids"] = torch.where(mask == 0, pad, ids)
    return batch


def difference(model: nn.Module, other: nn.Module, batch: dict[str, Tensor]) -> float:
    """Largest change of an output entry, relative to itself or to the median of its column if larger; both models in float64."""
    outputs = []
    for one in (model, other):
        params = {name: p.detach().double() for name, p in one.named_parameters() if p.is_floating_point()}
        with torch.no_grad():
            outputs.append(Probe(one, batch, None)(params, seed=0))
    return change(outputs[1], outputs[0])
