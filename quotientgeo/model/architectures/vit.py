"""ViT and the models whose attention is a copy of its own: {q, k, v, o}_proj in one module, positions added to the patches.

Names are those in memory (transformers 5); folders keep older ones (``attention.attention.query``), which ``load_checkpoint``
respells. Query, key and value maps have biases or none (``config.qkv_bias``), the output map always has one.
"""

from quotientgeo.model.architectures.facts import SplitAttention

ATTENTION = SplitAttention(
    modules=("ViTAttention", "DeiTAttention", "ViTMSNAttention", "Dinov2Attention"),
    query="q_proj",
    key="k_proj",
    value="v_proj",
    output="o_proj",
    heads="num_attention_heads",
    size="head_dim",
)

MODEL_TYPES = ("vit", "deit", "vit_msn", "dinov2")
UNUSED = tuple(f"{base}pooler.dense.{part}" for base in ("", "vit.", "deit.", "dinov2.") for part in ("weight", "bias"))
