"""The five tiny models: `CASES` maps a name to a lazy, seeded `Case`.

How to use one, with no code of ours needed beyond plain data:

    case = CASES["classifier"]
    model = case.module()            # fresh torch module, float64, eval mode, at gauge condition 100, biases unfolded
    batch = case.batch()             # dict of integer tensors
    total, count = case.loss(model, batch)       # sum over examples (or labelled tokens) and their number
    blocks = case.blocks()           # Blocks(pairs, shifts): tensor name, axis and indices of every head's factors
    case.folded()                    # parameters by name after folding b_V into b_O (b_V = 0, b_K = 0)

Weights and batches are read from tests/data/oracle_models.npz, which make_models.py wrote, so that nothing depends on
the machine's training run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.oracle.blocks import Blocks, View, attention_blocks
from tests.oracle.networks import CausalModel, Classifier, CrossModel, Funnel, MaskedModel

ARCHIVE = Path(__file__).resolve().parents[1] / "data" / "oracle_models.npz"
Batch = dict[str, Tensor]
Parameters = dict[str, Tensor]


def summed_cross_entropy(model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
    """(sum, count) over the labels that are not -100; the model's arguments are the batch without its labels."""
    logits = model(**{name: tensor for name, tensor in batch.items() if name != "labels"})
    labels = batch["labels"]
    total = functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=-100, reduction="sum")
    return total, int((labels != -100).sum())


@dataclass(frozen=True)
class Case:
    """One model with its data; every method returns fresh tensors."""

    name: str
    build: Callable[[], nn.Module]
    seed: int

    def module(self) -> nn.Module:
        """The trained network, float64, eval mode, every head at gauge condition 100, biases as trained."""
        model = self.build().double().eval()
        stored = _archive()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(torch.from_numpy(stored[f"{self.name}/weights/{name}"]))
        return model

    def batch(self) -> Batch:
        """The one batch on which sharpness is measured."""
        prefix = f"{self.name}/batch/"
        stored = _archive()
        return {
            key.removeprefix(prefix): torch.from_numpy(stored[key].copy()) for key in stored if key.startswith(prefix)
        }

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        """Summed cross-entropy and the number of labels it runs over; the mean is their quotient."""
        return summed_cross_entropy(model, batch)

    def blocks(self) -> Blocks:
        """Which numbers of which parameters form each head's pairs, and which biases are translations."""
        return model_blocks(self.build())

    def parameters(self) -> Parameters:
        """The stored parameters by the names of named_parameters()."""
        return {name: parameter.detach().clone() for name, parameter in self.module().named_parameters()}

    def folded(self) -> Parameters:
        """The same function with every b_V folded into its b_O and every b_K zero."""
        return fold(self.parameters(), self.blocks())


def model_blocks(model: nn.Module) -> Blocks:
    """The blocks of any of our networks: those of model.attentions.*."""
    blocks = Blocks()
    for layer, attention in enumerate(model.attentions):
        blocks += attention_blocks(attention, f"attentions.{layer}", layer)
    return blocks


def read_view(parameters: Parameters, view: View) -> Tensor:
    """The view as a matrix (rows, h)."""
    tensor = parameters[view.tensor].movedim(view.axis, -1)[..., list(view.indices)]
    return tensor.reshape(-1, len(view.indices))


def fold(parameters: Parameters, blocks: Blocks) -> Parameters:
    """b_O += W_O b_V, b_V = 0, b_K = 0, head by head."""
    folded = {name: tensor.clone() for name, tensor in parameters.items()}
    for shift in blocks.shifts:
        value = read_view(folded, shift.bias)[0]
        if shift.compensator is not None:
            weight, target = shift.compensator
            folded[target] = folded[target] + read_view(folded, weight) @ value
        folded[shift.bias.tensor][list(shift.bias.indices)] = 0.0
    return folded


def mean_loss(case: Case, parameters: Parameters, model: nn.Module | None = None) -> Tensor:
    """Mean loss of the case's batch with these parameters, differentiable in them."""
    model = case.module() if model is None else model
    wrapper = LossModule(case, model)
    named = {f"model.{name}": tensor for name, tensor in parameters.items()}
    return torch.func.functional_call(wrapper, named, (case.batch(),))


class LossModule(nn.Module):
    """The mean loss as a module, so that functional_call can replace the parameters."""

    def __init__(self, case: Case, model: nn.Module) -> None:
        super().__init__()
        self.case, self.model = case, model

    def forward(self, batch: Batch) -> Tensor:
        total, count = self.case.loss(self.model, batch)
        return total / count


@cache
def _archive() -> dict[str, np.ndarray]:
    with np.load(ARCHIVE) as archive:
        return dict(archive)


CASES = {
    case.name: case
    for case in (
        Case("classifier", Classifier, seed=8),
        Case("causal", CausalModel, seed=2),
        Case("funnel", Funnel, seed=1),
        Case("masked", MaskedModel, seed=4),
        Case("cross", CrossModel, seed=11),
    )
}
