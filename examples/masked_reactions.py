"""A task file: masked tokens of chemical reactions, for an ALBERT or a BERT that was trained on reaction SMILES.

    quotientgeo sharpness CHECKPOINT --task examples/masked_reactions.py --data examples/data/reactions.smi

calls the three functions that every task file has: for each checkpoint ``load`` and then ``batches``, once, and ``loss`` in
every step of the search.

The file fits the trained models in the packages rxnmapper 0.4.3 (ALBERT) and rxnfp 0.1.0 (BERT). Both have the same 591 tokens,
so both see the same batches.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import quotientgeo as qg

BATCH_SIZE = 16  # the m of m-sharpness: the value is a mean over batches of a maximum, so it depends on m
MAX_BATCHES: int | None = 2  # None: the whole file, 8 batches of 16
MASK_SHARE = 0.15
MASK_SEED = 0

# one token per atom, bond, ring number or arrow: the usual expression for reaction SMILES
TOKEN = re.compile(
    r"\%\([0-9]{3}\)|\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\||\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|\%[0-9]{2}|[0-9]"
)
NOT_ASKED = -100  # the label of a token that carries no loss
# parts of the pre-training that a masked-language model does not have: in the files, not in the model
UNUSED_ALBERT = ("albert.pooler.weight", "albert.pooler.bias")
UNUSED_BERT = (
    "bert.pooler.dense.weight",
    "bert.pooler.dense.bias",
    "cls.seq_relationship.weight",
    "cls.seq_relationship.bias",
)

_vocabulary: dict[str, int] = {}  # token -> id, of the checkpoint that load() saw last


def load(checkpoint: str) -> nn.Module:
    """The masked-language model in the folder ``checkpoint``, complete and in evaluation mode."""
    from transformers import BertConfig, BertForMaskedLM

    folder = Path(checkpoint)
    config = folder / "config.json"
    model: nn.Module
    if json.loads(config.read_text()).get("model_type") == "albert":
        model = qg.load_checkpoint(folder, ignore_unexpected=UNUSED_ALBERT)
    else:  # rxnfp's config.json does not say what kind of model it is for
        model = BertForMaskedLM(BertConfig.from_json_file(config))
        qg.load_weights(model, folder, ignore_unexpected=UNUSED_BERT)
    _vocabulary.clear()
    _vocabulary.update(read_vocabulary(folder / "vocab.txt"))
    return model.eval()


def batches(data: str) -> list[dict[str, Tensor]]:
    """The reactions in the file ``data`` in their order, BATCH_SIZE at a time, each masked once and for all.

    The masks are drawn reaction by reaction from MASK_SEED, so they depend neither on BATCH_SIZE nor on MAX_BATCHES.
    """
    if not _vocabulary:
        raise ValueError("batches(data) needs the vocabulary of a checkpoint: call load(checkpoint) first")
    generator = torch.Generator().manual_seed(MASK_SEED)
    examples = [mask(encode(reaction), generator) for reaction in read_reactions(Path(data))]
    groups = [examples[start : start + BATCH_SIZE] for start in range(0, len(examples), BATCH_SIZE)]
    return [pad(group) for group in groups[:MAX_BATCHES]]


def loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Sum of the cross-entropies of the masked tokens, and their number."""
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    labels = batch["labels"]
    total = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=NOT_ASKED, reduction="sum")
    return total, (labels != NOT_ASKED).sum()


def read_vocabulary(path: Path) -> dict[str, int]:
    """Ids of the tokens, which the file lists one a line in their order."""
    return {token: index for index, token in enumerate(path.read_text().splitlines())}


def read_reactions(path: Path) -> list[str]:
    """The first column of each line; lines that start with # are comments (no SMILES starts with a triple bond)."""
    lines = path.read_text().splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def encode(reaction: str) -> Tensor:
    """Ids of [CLS], the tokens of a reaction SMILES, [SEP]; shape (length,)."""
    tokens = TOKEN.findall(reaction)
    if "".join(tokens) != reaction:
        raise ValueError(f"not a reaction SMILES: {reaction!r}")
    unknown = sorted({token for token in tokens if token not in _vocabulary})
    if unknown:
        raise ValueError(f"the checkpoint has no token for {', '.join(unknown)} in {reaction!r}")
    return torch.tensor([_vocabulary[token] for token in ("[CLS]", *tokens, "[SEP]")])


def mask(ids: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs with MASK_SHARE of the tokens (at least one, never [CLS] or [SEP]) replaced by [MASK], and their labels."""
    count = max(1, round(MASK_SHARE * (len(ids) - 2)))
    chosen = 1 + torch.randperm(len(ids) - 2, generator=generator)[:count]
    labels = torch.full_like(ids, NOT_ASKED)
    labels[chosen] = ids[chosen]
    inputs = ids.clone()
    inputs[chosen] = _vocabulary["[MASK]"]
    return inputs, labels


def pad(examples: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """One batch, padded on the right to its longest reaction; every tensor has shape (examples, length)."""
    inputs, labels = ([example[part] for example in examples] for part in (0, 1))
    lengths = torch.tensor([len(ids) for ids in inputs])
    pad_sequence = torch.nn.utils.rnn.pad_sequence
    padded = pad_sequence(inputs, batch_first=True, padding_value=_vocabulary["[PAD]"])
    return {
        "input_ids": padded,
        "attention_mask": (torch.arange(padded.shape[1]) < lengths[:, None]).long(),
        "labels": pad_sequence(labels, batch_first=True, padding_value=NOT_ASKED),
    }
