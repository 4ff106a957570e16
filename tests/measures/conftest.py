"""Fixtures of the measures' tests."""

from __future__ import annotations

import pytest

from tests.helpers.losses import masked_batch
from tests.helpers.models import hugging_face


@pytest.fixture(scope="module", params=["BertForMaskedLM", "AlbertForMaskedLM"])
def trained_like(request):
    model = hugging_face(request.param)
    return model, masked_batch(model)
