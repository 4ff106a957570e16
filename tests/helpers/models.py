"""Tiny models for tests: attention of our own with every trap we can plant, and tiny Hugging Face models."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

VOCABULARY = 13


def rotate(x: Tensor, rotary: int) -> Tensor:
    """Rotary positions on the first ``rotary`` dimensions of x (batch, heads, length, size), half-split pairs."""
    half = rotary // 2
    angles = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * 10.0 ** -torch.arange(half)
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., :half], x[..., half:rotary]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, x[..., rotary:]], dim=-1)


class SelfAttention(nn.Module):
    """Multi-head self-attention with separate maps; ``biases`` is a subset of "qkvo".

    rotary: dimensions per head under rotary positions. qk_norm: RMS norm of queries and keys. dropout: on attention weights.
    """

    def __init__(
        self, width: int, heads: int, size: int, *,
        biases: str = "qkvo", rotary: int = 0, qk_norm: bool = False, dropout: float = 0.0,
    ):  # fmt: skip
        super().__init__()
        self.num_heads, self.size, self.rotary, self.qk_norm = heads, size, rotary, qk_norm
        self.q_proj = nn.Linear(width, heads * size, bias="q" in biases)
        self.k_proj = nn.Linear(width, heads * size, bias="k" in biases)
        self.v_proj = nn.Linear(width, heads * size, bias="v" in biases)
        self.o_proj = nn.Linear(heads * size, width, bias="o" in biases)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            f(x).unflatten(-1, (self.num_heads, self.size)).transpose(1, 2)
            for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.qk_norm:
            q, k = (y / y.pow(2).mean(-1, keepdim=True).add(1e-6).sqrt() for y in (q, k))
        if self.rotary:
            q, k = rotate(q, self.rotary), rotate(k, self.rotary)
        weights = self.dropout(torch.softmax(q @ k.mT / math.sqrt(self.size), dim=-1))
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))


class StackedHeads(nn.Module):
    """Self-attention whose weights keep the head on the leading axis: query, key (heads, width, size), and so on."""

    def __init__(self, width: int, heads: int, size: int):
        super().__init__()
        shape = (heads, width, size)
        self.query, self.key, self.value, self.out = (
            nn.Parameter(torch.randn(shape) / math.sqrt(width)) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (torch.einsum("bld,hds->bhls", x, w) for w in (self.query, self.key, self.value))
        mixed = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v
        return torch.einsum("bhls,hds->bld", mixed, self.out)


class TinyModel(nn.Module):
    """Embeddings, attention layers with residuals, a head that may be tied to the embeddings. Returns logits."""

    def __init__(self, *, layers: int = 2, width: int = 8, tied: bool = False, **attention: Any):
        super().__init__()
        heads, size = attention.pop("heads", 2), attention.pop("size", 4)
        self.embed = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(16, width))
        self.layers = nn.ModuleList(SelfAttention(width, heads, size, **attention) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.positions[: ids.shape[1]]
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def tiny(seed: int = 0, **options: Any) -> TinyModel:
    """A seeded TinyModel in evaluation mode, float32 as a user's would be."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return randomised(TinyModel(**options), seed).eval()


def randomised(model: nn.Module, seed: int = 0) -> nn.Module:
    """Every weight of order one and every bias and gain away from its default, so that nothing passes because it is zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            noise = torch.randn(p.shape, generator=generator)
            p.copy_(noise / math.sqrt(p.shape[-1]) if p.ndim > 1 else p + 0.3 * noise)
    return model


def token_batch(examples: int = 2, length: int = 6, vocabulary: int = VOCABULARY, seed: int = 0) -> Tensor:
    """Random token ids (examples, length), 0 (often padding) excluded."""
    return torch.randint(1, vocabulary, (examples, length), generator=torch.Generator().manual_seed(seed))


HUGGING_FACE = {
    "BertForMaskedLM": ("BertConfig", {}),
    "BertForSequenceClassification": ("BertConfig", {"num_labels": 3}),
    "BertModel": ("BertConfig", {}),
    "BertLMHeadModel": ("BertConfig", {"is_decoder": True}),
    "AlbertForMaskedLM": ("AlbertConfig", {"embedding_size": 6, "num_hidden_layers": 4, "num_hidden_groups": 2}),
    "RobertaForMaskedLM": ("RobertaConfig", {"pad_token_id": 0}),
    "XLMRobertaForMaskedLM": ("XLMRobertaConfig", {"pad_token_id": 0}),
    "CamembertForMaskedLM": ("CamembertConfig", {"pad_token_id": 0}),
    "ElectraForPreTraining": ("ElectraConfig", {"embedding_size": 8}),
    "ViTForImageClassification": ("ViTConfig", {"num_labels": 3}),
    "ViTModel": ("ViTConfig", {}),
    "ViTForMaskedImageModeling": ("ViTConfig", {"encoder_stride": 4}),
    "DeiTForImageClassification": ("DeiTConfig", {"num_labels": 3}),
    "ViTMSNForImageClassification": ("ViTMSNConfig", {"num_labels": 3}),
    "Dinov2Model": ("Dinov2Config", {}),
    "Dinov2ForImageClassification": ("Dinov2Config", {"num_labels": 3}),
}  # fmt: skip
TEXT = {"vocab_size": 29, "max_position_embeddings": 24}
IMAGES = {"image_size": 8, "patch_size": 4, "num_channels": 1}


def hugging_face(name: str, seed: int = 0, **changes: Any) -> nn.Module:
    """A tiny model of a transformers class with random weights, biases and gains, in evaluation mode."""
    import transformers

    config, special = HUGGING_FACE[name]
    sizes = {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    }  # fmt: skip
    sizes |= IMAGES if is_image_model(name) else TEXT
    built = getattr(transformers, name)(getattr(transformers, config)(**(sizes | special | changes)))
    return randomised(built, seed).eval()


def is_image_model(name: str) -> bool:
    return name.startswith(("ViT", "DeiT", "Dinov2"))


def image_batch(examples: int = 3, seed: int = 0) -> dict[str, Tensor]:
    """Grey images of 8 x 8 random pixels."""
    return {"pixel_values": torch.randn(examples, 1, 8, 8, generator=torch.Generator().manual_seed(seed))}


def hf_batch(model: nn.Module, seed: int = 0) -> dict[str, Tensor]:
    """Two sequences of different lengths, the second one padded; images for an image model."""
    if is_image_model(type(model).__name__):
        return image_batch(seed=seed)
    ids = token_batch(2, 7, int(model.config.vocab_size), seed) + 0
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    return {"input_ids": ids, "attention_mask": mask}
