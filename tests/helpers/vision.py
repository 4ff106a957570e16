"""Image models for tests: a tiny ViT trained on digits, an attention in timm's layout, and the loss of a classifier."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from tests.helpers.models import image_batch


def classifier_loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, int]:
    logits = model(pixel_values=batch["pixel_values"]).logits
    return nn.functional.cross_entropy(logits, batch["labels"], reduction="sum"), len(logits)


def labelled_images(examples: int = 4, classes: int = 3, seed: int = 0) -> dict[str, Tensor]:
    labels = torch.randint(classes, (examples,), generator=torch.Generator().manual_seed(seed + 1))
    return image_batch(examples, seed) | {"labels": labels}


def trained_vit(steps: int = 120) -> tuple[nn.Module, dict[str, Tensor]]:
    """A two-layer ViT after ``steps`` of Adam on the digits of scikit-learn (three seconds), and a batch that it has not seen."""
    transformers = pytest.importorskip("transformers")
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    pixels = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16 - 0.5
    labels = torch.tensor(digits.target)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        image_size=8, patch_size=2, num_channels=1, num_labels=10,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.ViTForImageClassification(config)
        optimiser = torch.optim.Adam(model.parameters(), 1e-2)
        for _ in range(steps):
            at = torch.randint(1500, (128,))
            loss = nn.functional.cross_entropy(model(pixels[at]).logits, labels[at])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    for p in model.parameters():
        p.grad = None
    return model.eval(), {"pixel_values": pixels[1500:1516], "labels": labels[1500:1516]}


class FusedAttention(nn.Module):
    """timm's layout: one map for [queries, keys, values], each with its heads in order, and an output map."""

    def __init__(self, width: int, heads: int, *, bias: bool = True):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, self.size)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.proj(mixed.transpose(1, 2).flatten(2))


class FusedViT(nn.Module):
    """Patches, positions, pre-norm blocks of fused attention and a classifier on the mean token."""

    def __init__(self, *, width: int = 8, heads: int = 2, layers: int = 2, classes: int = 3, bias: bool = True):
        super().__init__()
        self.patch_embed = nn.Conv2d(1, width, kernel_size=4, stride=4)
        self.pos_embed = nn.Parameter(torch.randn(1, 4, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.blocks = nn.ModuleList(FusedAttention(width, heads, bias=bias) for _ in range(layers))
        self.head = nn.Linear(width, classes)

    def forward(self, pixel_values: Tensor) -> Any:
        x = self.patch_embed(pixel_values).flatten(2).mT + self.pos_embed
        for norm, block in zip(self.norms, self.blocks, strict=True):
            x = x + block(norm(x))
        return self.head(x.mean(1))


def fused_graph(model: FusedViT) -> qg.SymmetryGraph:
    """The blocks of a fused model by hand: for each head two pairs, and the translations of its key and value biases."""
    graph = qg.SymmetryGraph(model)
    for layer, attention in enumerate(model.blocks):
        path, size, width = f"blocks.{layer}", attention.size, attention.heads * attention.size
        for head in range(attention.heads):
            q, k, v = (range(part * width + head * size, part * width + (head + 1) * size) for part in range(3))
            out = qg.Leg(f"{path}.proj.weight", axis=1, indices=range(head * size, (head + 1) * size))
            rows = {name: [qg.Leg(f"{path}.qkv.weight", indices=at)] for name, at in (("q", q), ("k", k), ("v", v))}
            if attention.qkv.bias is not None:
                bias = f"{path}.qkv.bias"
                rows["q"].append(qg.Leg(bias, indices=q))
                rows["k"].append(qg.Leg(bias, indices=k, role="carried"))
                rows["v"].append(qg.Leg(bias, indices=v, role="carried"))
                graph.add(qg.ShiftBlock(f"{path}.head{head}.key_bias", (qg.Leg(bias, indices=k),)))
                fold = ((out, f"{path}.proj.bias"),)
                graph.add(qg.ShiftBlock(f"{path}.head{head}.value_bias", (qg.Leg(bias, indices=v),), fold))
            graph.add(qg.PairBlock(f"{path}.head{head}.qk", qg.GL(size), rows["q"], rows["k"]))
            graph.add(qg.PairBlock(f"{path}.head{head}.vo", qg.GL(size), rows["v"], (out,)))
    return graph
