"""Calls that cannot be meant: one line that names the argument, at the place where it was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, BlockError, CheckpointError, DeclarationError
from quotientgeo.model.checkpoint import load_weights
from tests.helpers.graphs import graph_of
from tests.helpers.models import TinyModel, hugging_face, tiny, token_batch

QUERY, KEY = (qg.Leg(f"layers.0.{part}_proj.weight", indices=range(4)) for part in "qk")


@pytest.mark.parametrize("size", [2.5, True, None, 0, -1, "", "h h", [3], float("nan")])
def test_sizes_of_groups(size):
    with pytest.raises(DeclarationError, match=r"size must be a positive integer or a symbol's name, got "):
        qg.GL(size)


def test_sizes_of_other_integer_types_are_integers():
    assert qg.GL(np.int64(4)) == qg.GL(4) == qg.GL(torch.tensor(4))
    assert type(qg.GL(np.int64(4)).size) is int
    assert qg.GL("h").size == "h"


@pytest.mark.parametrize("indices", [[0.5, 1], 3, "abc", "", b"ab", [True, False], [None], [[0]], {0: 1}, 2.5])
def test_indices_of_legs(indices):
    with pytest.raises(BlockError, match=r"leg on 'w': indices must be integers, such as range\(0, 64\), got "):
        qg.Leg("w", indices=indices)


@pytest.mark.parametrize(
    "indices", [np.arange(3), torch.arange(3), range(3), [np.int32(0), 1, 2], (i for i in range(3))]
)
def test_indices_may_be_any_integers(indices):
    assert qg.Leg("w", indices=indices).indices == (0, 1, 2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: qg.Leg(3), "a leg needs the name of a parameter, got 3"),
        (lambda: qg.Leg("w", offset="1"), "leg on 'w': offset must be a finite number, got '1'"),
        (lambda: qg.Leg("w", offset=float("nan")), "offset must be a finite number, got nan"),
        (lambda: qg.PairBlock("b", "GL(8)", QUERY, KEY), r"the group must be a GL .*, such as GL\(64\), got 'GL\(8\)'"),
        (lambda: qg.PairBlock("b", 8, QUERY, KEY), "the group must be a GL .*, got 8"),
        (lambda: qg.PairBlock("b", qg.GL("h"), QUERY, KEY), "with a size in numbers"),
        (lambda: qg.PairBlock("b", qg.GL(4), None, KEY), "block 'b', side G: expected at least one Leg"),
        (lambda: qg.PairBlock("b", qg.GL(4), QUERY, "kq"), "block 'b', side H: expected at least one Leg"),
        (lambda: qg.PairBlock(None, qg.GL(4), QUERY, KEY), "a block needs a name, got None"),
        (lambda: qg.ShiftBlock("s", 3), "shift 's': expected at least one Leg"),
        (lambda: qg.ShiftBlock("", KEY), "a shift needs a name, got ''"),
        (lambda: qg.ShiftBlock("s", KEY, ("bias",)), r"compensators must be pairs \(Leg on a weight, name of a bias\)"),
        (lambda: qg.ShiftBlock("s", KEY, (QUERY, "bias")), "compensators must be pairs"),
        (lambda: qg.ShiftBlock("s", KEY, (("w", "bias"),)), "compensators must be pairs"),
        (lambda: qg.ShiftBlock("s", KEY, 3), "compensators must be pairs"),
    ],
)
def test_declarations(build, message):
    with pytest.raises(BlockError, match=message) as caught:
        build()
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("build", [qg.SymmetryGraph, qg.symmetry_graph, lambda m: qg.symmetry_graph(m, "none")])
@pytest.mark.parametrize(
    ("model", "described"), [("x", "a str"), (None, "a NoneType"), (TinyModel, "the class TinyModel: make")]
)
def test_what_is_no_model(build, model, described):
    with pytest.raises(ArgumentError, match=f"model must be a torch.nn.Module, got {described}"):
        build(model)


@pytest.mark.parametrize(
    "options",
    [
        {"seed": "a"},
        {"seed": 1.5},
        {"seed": True},
        {"seed": 2**70},
        {"forward": 3},
        {"tolerance": -1},
        {"tolerance": None},
    ],
)
def test_arguments_of_verify(options):
    with pytest.raises(ArgumentError, match=f"^{next(iter(options))} must be "):
        graph_of(tiny()).verify(token_batch(), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"seed": "a"},
        {"condition": "x"},
        {"condition": None},
        {"condition": 0.5},
        {"translations": "x"},
        {"translations": -1},
    ],
)
def test_arguments_of_move(options):
    with pytest.raises(ArgumentError, match=f"{next(iter(options))} must be an? "):
        graph_of(tiny()).move(**options)


def test_names_of_blocks():
    graph = graph_of(tiny())
    assert [block.name for block in graph.restricted_to("layers.0.head0.qk").blocks] == ["layers.0.head0.qk"]
    with pytest.raises(BlockError, match="restricted_to takes names of blocks and shifts, got 3"):
        graph.restricted_to(3)
    with pytest.raises(BlockError, match="no block is called '3', 'x'"):
        graph.restricted_to(["x", 3])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("transformers")
    hugging_face("BertForMaskedLM").save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def test_arguments_of_load_checkpoint(folder):
    for path in (None, 3, ["a"]):
        with pytest.raises(CheckpointError, match="a checkpoint is a local folder, given as its path; got "):
            qg.load_checkpoint(path)
        with pytest.raises(CheckpointError, match="given as its path"):
            load_weights(tiny(), path)
        with pytest.raises(CheckpointError, match="given as its path"):
            qg.save_checkpoint(tiny(), folder / "new", like=path)
    for chosen, described in (
        ("BertForMaskedLM", "'BertForMaskedLM'"),
        (tiny(), "a TinyModel"),
        (print, "a builtin_fun"),
    ):
        with pytest.raises(CheckpointError, match=f"model_class must be a class such as .*, got {described}"):
            qg.load_checkpoint(folder, chosen)
    for state in (3, [1]):
        with pytest.raises(CheckpointError, match=f"a state dict or None, got a {type(state).__name__}"):
            qg.save_checkpoint(tiny(), folder / "new", like=folder, state=state)
    with pytest.raises(CheckpointError, match=r"takes a model, .* got a str"):
        qg.save_checkpoint("model", folder / "new", like=folder)


def test_a_pattern_is_not_a_sequence_of_characters(folder):
    """Among the characters of 'cls.*' is a star, which would have matched every stored tensor."""
    model = hugging_face("BertForMaskedLM")
    stored = {name: value.clone() for name, value in model.state_dict().items()} | {"extra.a": torch.ones(1)}
    with pytest.raises(CheckpointError, match=r"no place for stored tensors \(1\): extra.a"):
        load_weights(model, stored, ignore_unexpected="pooler.*")
    assert load_weights(model, stored, ignore_unexpected="extra.*").ignored == ("extra.a",)
    from transformers import BertModel

    with pytest.raises(CheckpointError, match=r"no place for stored tensors|that the model needs are missing"):
        qg.load_checkpoint(folder, BertModel, ignore_unexpected="bert.pooler.*")
    with pytest.raises(
        CheckpointError, match=r"ignore_unexpected must be patterns such as 'bert.pooler.\*', got \[3\]"
    ):
        qg.load_checkpoint(folder, ignore_unexpected=[3])
    with pytest.raises(CheckpointError, match="ignore_unexpected must be patterns"):
        qg.load_checkpoint(folder, ignore_unexpected=3)
    one, other = (qg.load_checkpoint(folder, ignore_unexpected=p) for p in ("bert.pooler.*", ["bert.pooler.*"]))
    assert one.load_report == other.load_report
    assert isinstance(one, nn.Module)
