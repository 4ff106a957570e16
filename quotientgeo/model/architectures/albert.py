"""ALBERT: {query, key, value, dense} in one module.

All layers of a group share the module, so that its blocks act once for all of them.
"""

from quotientgeo.model.architectures.facts import SplitAttention

ATTENTION = SplitAttention(
    modules=("AlbertAttention",),
    query="query",
    key="key",
    value="value",
    output="dense",
    heads="num_attention_heads",
    size="attention_head_size",
)

MODEL_TYPES = ("albert",)
UNUSED = (*(f"{base}pooler.{part}" for base in ("", "albert.") for part in ("weight", "bias")), "sop_classifier.*")
