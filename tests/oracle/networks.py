"""Tiny attention networks of our own, in plain torch, for the oracle (no code of the package is used here).

`Attention` keeps the four projections apart; `FusedAttention` keeps query, key and value in one matrix whose rows are
laid out [heads, 3, size]. Everything is smooth (no ReLU), so that the oracle's derivative-based search converges.
"""

import math

import torch
from torch import Tensor, nn


def attend(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    """Softmax attention; all arguments (batch, heads, length, size); returns (batch, length, heads * size)."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    mixed = torch.softmax(scores, dim=-1) @ value
    return mixed.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Multi-head attention; `biases` is a subset of "qkvo"; the memory (keys, values) may have a width of its own."""

    def __init__(
        self, width: int, heads: int, key_size: int, value_size: int, biases: str, *,
        memory_width: int | None = None, output_width: int | None = None, causal: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        memory_width, output_width = memory_width or width, output_width or width
        self.heads, self.key_size, self.value_size = heads, key_size, value_size
        self.biases, self.causal = biases, causal
        self.query = nn.Linear(width, heads * key_size, bias="q" in biases)
        self.key = nn.Linear(memory_width, heads * key_size, bias="k" in biases)
        self.value = nn.Linear(memory_width, heads * value_size, bias="v" in biases)
        self.out = nn.Linear(heads * value_size, output_width, bias="o" in biases)

    def forward(self, stream: Tensor, memory: Tensor | None = None) -> Tensor:
        memory = stream if memory is None else memory
        query, key, value = (
            projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for projected in (self.query(stream), self.key(memory), self.value(memory))
        )
        return self.out(attend(query, key, value, self.causal))


class FusedAttention(nn.Module):
    """Multi-head attention with one projection for query, key and value, rows [heads, 3, size], all biases."""

    def __init__(self, width: int, heads: int, size: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.key_size, self.value_size = heads, size, size
        self.biases, self.causal = "qkvo", causal
        self.qkv = nn.Linear(width, heads * 3 * size)
        self.out = nn.Linear(heads * size, width)

    def forward(self, stream: Tensor) -> Tensor:
        projected = self.qkv(stream).unflatten(-1, (self.heads, 3, -1)).movedim(-2, 0).transpose(2, 3)
        return self.out(attend(projected[0], projected[1], projected[2], self.causal))


class Perceptron(nn.Module):
    """Two linear maps around a smooth nonlinearity."""

    def __init__(self, width: int, hidden: int, activation: nn.Module) -> None:
        super().__init__()
        self.up, self.activation, self.down = nn.Linear(width, hidden), activation, nn.Linear(hidden, width)

    def forward(self, stream: Tensor) -> Tensor:
        return self.down(self.activation(self.up(stream)))


class Classifier(nn.Module):
    """Bidirectional, pre-LayerNorm, residual tanh MLP; value heads wider than key heads; query and output bias."""

    def __init__(self, vocabulary: int = 10, length: int = 6, width: int = 6, classes: int = 4) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.attentions = nn.ModuleList(Attention(width, 2, 2, 3, "qo") for _ in range(2))
        self.perceptrons = nn.ModuleList(Perceptron(width, 5, nn.Tanh()) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        stream = self.tokens(tokens) + self.positions.weight
        for layer in range(2):
            stream = stream + self.attentions[layer](self.norms[2 * layer](stream))
            stream = stream + self.perceptrons[layer](self.norms[2 * layer + 1](stream))
        return self.head(stream.mean(dim=1))


class CausalModel(nn.Module):
    """Causal, RMS norm, fused projections with all biases, no MLP; the output matrix is the embedding table."""

    def __init__(self, vocabulary: int = 9, length: int = 5, width: int = 6) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.attentions = nn.ModuleList(FusedAttention(width, 3, 2, causal=True) for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=1e-5) for _ in range(3))

    def forward(self, tokens: Tensor) -> Tensor:
        stream = self.tokens(tokens) + self.positions.weight
        for norm, attention in zip(self.norms, self.attentions, strict=False):
            stream = stream + attention(norm(stream))
        return self.norms[2](stream) @ self.tokens.weight.T


class Funnel(nn.Module):
    """No norm, no residual, widths 7 -> 5 -> 8; the value bias has no output bias to fold into: a row of its factor."""

    def __init__(self, vocabulary: int = 8, length: int = 6, classes: int = 3) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, 7), nn.Embedding(length, 7)
        self.attentions = nn.ModuleList(
            (Attention(7, 2, 3, 3, "qkv", output_width=5), Attention(5, 2, 3, 3, "qv", output_width=8))
        )
        self.head = nn.Linear(8, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        stream = self.tokens(tokens) + self.positions.weight
        for attention in self.attentions:
            stream = attention(stream)
        return self.head(stream.mean(dim=1))


class MaskedModel(nn.Module):
    """Post-LayerNorm as in BERT, all biases, GELU MLP, tied output with a bias, a padding row that is exactly zero."""

    def __init__(self, vocabulary: int = 11, length: int = 6, width: int = 8) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=0)
        self.positions = nn.Embedding(length, width)
        self.attentions = nn.ModuleList(Attention(width, 2, 2, 2, "qkvo") for _ in range(2))
        self.perceptrons = nn.ModuleList(Perceptron(width, 6, nn.GELU()) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.decoder = nn.Linear(width, vocabulary)
        self.decoder.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        stream = self.tokens(tokens) + self.positions.weight
        for layer in range(2):
            stream = self.norms[2 * layer](stream + self.attentions[layer](stream))
            stream = self.norms[2 * layer + 1](stream + self.perceptrons[layer](stream))
        return self.decoder(stream)


class CrossModel(nn.Module):
    """A causal self-attention layer (width 6), then cross-attention into a source of width 4; untied next-token head."""

    def __init__(self, vocabulary: int = 8, source_vocabulary: int = 6, length: int = 5) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, 6), nn.Embedding(length, 6)
        self.source = nn.Embedding(source_vocabulary, 4)
        self.source_positions = nn.Embedding(length, 4)
        self.attentions = nn.ModuleList(
            (Attention(6, 3, 2, 2, "qkvo", causal=True), Attention(6, 2, 3, 2, "qko", memory_width=4))
        )
        self.perceptron = Perceptron(6, 5, nn.SiLU())
        self.norms = nn.ModuleList(nn.RMSNorm(6, eps=1e-5) for _ in range(4))
        self.head = nn.Linear(6, vocabulary, bias=False)

    def forward(self, tokens: Tensor, source: Tensor) -> Tensor:
        memory = self.source(source) + self.source_positions.weight
        stream = self.tokens(tokens) + self.positions.weight
        stream = stream + self.attentions[0](self.norms[0](stream))
        stream = stream + self.attentions[1](self.norms[1](stream), memory)
        stream = stream + self.perceptron(self.norms[2](stream))
        return self.head(self.norms[3](stream))
