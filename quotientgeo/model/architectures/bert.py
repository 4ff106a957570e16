"""BERT and the models that keep its attention: a module with self.{query, key, value} and output.dense, learned positions.

Cross-attention of a decoder is the same class. Symmetries per head: GL(size) on queries and keys, GL(size) on values and
outputs, a key-bias translation, the value bias folded into the output bias.
"""

from quotientgeo.model.architectures.facts import SplitAttention

ATTENTION = SplitAttention(
    modules=(
        "BertAttention",
        "RobertaAttention",
        "XLMRobertaAttention",
        "CamembertAttention",
        "ElectraAttention",
    ),
    query="self.query",
    key="self.key",
    value="self.value",
    output="output.dense",
    heads="self.num_attention_heads",
    size="self.attention_head_size",
)

MODEL_TYPES = ("bert", "roberta", "xlm-roberta", "camembert", "electra")
UNUSED = (
    *(f"{base}pooler.dense.{part}" for base in ("", "bert.", "roberta.", "electra.") for part in ("weight", "bias")),
    "cls.seq_relationship.*",
)
