"""Graphs of our own tiny models, by the same rule that the shipped architectures use."""

from __future__ import annotations

from torch import nn

import quotientgeo as qg
from quotientgeo.model.architectures.facts import SplitAttention

RULE = SplitAttention(
    modules=("SelfAttention",),
    query="q_proj",
    key="k_proj",
    value="v_proj",
    output="o_proj",
    heads="num_heads",
    size="size",
)


def graph_of(model: nn.Module) -> qg.SymmetryGraph:
    """Two pair blocks per head of every SelfAttention, and the translations of its biases."""
    graph = qg.SymmetryGraph(model)
    for layer, (name, module) in enumerate(RULE.find(model)):
        pairs, shifts = RULE.blocks(name, module, layer)
        for block in (*pairs, *shifts):
            graph.add(block)
    return graph
