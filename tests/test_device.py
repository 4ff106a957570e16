"""What must hold on a GPU: the same numbers as on a CPU, and no step that waits for the device."""

from __future__ import annotations

import copy

import pytest
import torch

import quotientgeo as qg
from quotientgeo.measures import geodesic
from quotientgeo.measures.ascent import BatchAscent
from quotientgeo.measures.batches import map_tensors
from quotientgeo.measures.maximiser import auto_pgd
from quotientgeo.measures.objective import Objective
from quotientgeo.measures.problem import raised
from tests.helpers.losses import masked_batch, masked_loss
from tests.helpers.models import hugging_face

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
SETTINGS = [("invariant", "exact"), ("invariant", 2), ("mixed", "exact"), ("mixed", 2)]


def on_device(model, batch):
    return copy.deepcopy(model).cuda(), map_tensors(batch, lambda tensor: tensor.cuda())


@pytest.mark.parametrize(("metric", "how"), SETTINGS)
def test_the_same_number_as_on_a_cpu(metric, how):
    model = hugging_face("BertForMaskedLM").double()
    batch = masked_batch(model)
    there, moved = on_device(model, batch)
    settings = {"metric": metric, "geodesic": how, "rho": 0.1, "steps": 8, "starts": 2}
    here = qg.sharpness(model, masked_loss, [batch], **settings)
    result = qg.sharpness(there, masked_loss, [moved], **settings)
    assert result.value == pytest.approx(here.value, rel=1e-9)
    assert result.definitions["device"].startswith("cuda")
    assert result.peak_memory_bytes > 0


@pytest.mark.parametrize(("metric", "how"), SETTINGS)
def test_no_step_waits_for_the_device(metric, how):
    model, batch = on_device(hugging_face("BertForMaskedLM"), masked_batch(hugging_face("BertForMaskedLM")))

    def loss(model, batch):  # masked_loss without its count, which a user may well leave on the device
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="sum"), 1

    problem = geodesic.build(model, torch.float32, qg.symmetry_graph(model), metric=metric, geodesic=how, rho=0.1)
    parameters = raised(dict(model.named_parameters()), torch.float32)
    ascent = BatchAscent(problem, Objective(model, loss, batch), model, parameters)
    start = ascent.atlas.zero()
    reference = ascent.value_and_gradient(start)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        auto_pgd(ascent.value_and_gradient, ascent.value, start, radius=0.1, steps=6, known=reference)
    finally:
        torch.cuda.set_sync_debug_mode("default")
