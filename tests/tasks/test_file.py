"""Task files: what is read, what is refused, and that reading one leaves nothing behind."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from quotientgeo.errors import DataError, TaskError
from quotientgeo.tasks import Task, load_task

GOOD = """
import torch

def load(checkpoint):
    return torch.nn.Linear(int(checkpoint), 1).eval()

def batches(data):
    for scale in data.split(","):
        yield torch.full((2, 3), float(scale))

def loss(model, batch):
    return model(batch).sum(), torch.tensor(len(batch))
"""


def write(folder: Path, text: str, name: str = "task.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_good_file_is_a_task(tmp_path: Path) -> None:
    task: Task = load_task(write(tmp_path, GOOD))
    model = task.load("3")
    batches = task.batches("1,2")
    assert isinstance(batches, list)
    assert [b.mean().item() for b in batches] == [1.0, 2.0]
    total, count = task.loss(model, batches[1])
    assert torch.equal(total, model(batches[1]).sum())
    assert count == 2


def test_a_path_may_be_a_string(tmp_path: Path) -> None:
    assert load_task(str(write(tmp_path, GOOD))).path == tmp_path / "task.py"


def test_reading_leaves_no_trace(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    search_path = list(sys.path)
    load_task(path)
    assert sys.path == search_path
    assert [p.name for p in tmp_path.iterdir()] == ["task.py"]
    assert "task" not in sys.modules


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    first = load_task(path)
    write(tmp_path, GOOD.replace("(2, 3)", "(4, 3)"))
    assert load_task(path).batches("1")[0].shape == (4, 3)
    assert first.batches("1")[0].shape == (2, 3)


def test_two_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for folder, rows in (("a", 2), ("b", 5)):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, GOOD.replace("(2, 3)", f"({rows}, 3)"))
    a, b = (load_task(tmp_path / folder / "task.py") for folder in "ab")
    assert a.module.__name__ != b.module.__name__
    assert (a.batches("1")[0].shape[0], b.batches("1")[0].shape[0]) == (2, 5)


def test_a_file_may_define_dataclasses_and_use_its_own_folder(tmp_path: Path) -> None:
    head = "from __future__ import annotations\nfrom dataclasses import dataclass, field\nfrom pathlib import Path\n"
    body = "@dataclass\nclass Settings:\n    names: list[str] = field(default_factory=list)\nHERE = Path(__file__).parent\n"
    module = load_task(write(tmp_path, head + body + GOOD)).module
    assert dataclasses.is_dataclass(module.Settings)
    assert tmp_path.resolve() == module.HERE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("def loss", "def lost"), r"does not define loss\(model, batch\)$"),
        ("load = 3\n", r"does not define load\(checkpoint\), batches\(data\) and loss\(model, batch\)$"),
        (GOOD.replace("def batches(data)", "def batches()"), r"batches\(\) cannot be called as batches\(data\)"),
        (
            GOOD.replace("(model, batch)", "(model, batch, weight)"),
            r"cannot be called as loss\(model, batch\): .*weight",
        ),
        (
            "import nothing_of_this_name\n",
            r"ModuleNotFoundError: No module named 'nothing_of_this_name' \(line 1 of task.py\)",
        ),
        ("\n\nx = 1 / 0\n", r"ZeroDivisionError: division by zero \(line 3 of task.py\)"),
        ("def load(:\n", r"SyntaxError: .*task.py, line 1"),
        ("import sys\nsys.exit('enough')\n", r"SystemExit: enough"),
        ("# \x00", "does not run: "),
    ],
)
def test_a_bad_file_is_refused_with_its_own_cause(tmp_path: Path, text: str, message: str) -> None:
    before = set(sys.modules)
    with pytest.raises(TaskError, match=message):
        load_task(write(tmp_path, text))
    assert set(sys.modules) == before


def test_a_module_beside_the_file_that_is_not_found_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "shared_parts.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(TaskError, match=r"shared_parts\.py lies beside it, .*PYTHONPATH"):
        load_task(write(tmp_path, "from shared_parts import x\n"))


def test_the_cause_is_chained(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as caught:
        load_task(write(tmp_path, "raise KeyError('x')"))
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_failed_reload_keeps_the_module_that_ran(tmp_path: Path) -> None:
    task = load_task(write(tmp_path, GOOD))
    with pytest.raises(TaskError):
        load_task(write(tmp_path, "raise KeyError('x')"))
    assert sys.modules[task.module.__name__] is task.module


def test_an_interrupt_while_a_file_runs_stays_an_interrupt(tmp_path: Path) -> None:
    before = set(sys.modules)
    with pytest.raises(KeyboardInterrupt):
        load_task(write(tmp_path, "raise KeyboardInterrupt"))
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [("missing.py", "does not exist"), ("folder.py", "is a folder"), ("task.txt", r"is not a Python file \(.py\)")],
)
def test_what_is_not_a_python_file_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "task.txt").write_text(GOOD)
    with pytest.raises(TaskError, match=message):
        load_task(tmp_path / name)


def test_a_failure_inside_a_function_names_file_line_and_cause(tmp_path: Path) -> None:
    text = GOOD.replace("return torch.nn.Linear(int(checkpoint), 1).eval()", "return open(checkpoint + '/config.json')")
    with pytest.raises(
        TaskError, match=r"load\('nowhere'\) failed: FileNotFoundError: .*config.json' \(line 5 of task.py\)"
    ):
        load_task(write(tmp_path, text)).load("nowhere")


def test_a_generator_that_fails_half_way_is_the_tasks_failure(tmp_path: Path) -> None:
    with pytest.raises(
        TaskError, match=r"batches\('1,x'\) failed: ValueError: could not convert .* \(line 9 of task.py\)"
    ):
        load_task(write(tmp_path, GOOD)).batches("1,x")


def test_load_must_return_a_module(tmp_path: Path) -> None:
    text = GOOD.replace("return torch.nn.Linear(int(checkpoint), 1).eval()", "return {}")
    with pytest.raises(TaskError, match="must return a torch module, got dict"):
        load_task(write(tmp_path, text)).load("3")


def returning_batches(folder: Path, batches: object) -> object:
    task = load_task(write(folder, GOOD.replace("def batches", "def unused") + "\ndef batches(data): return GIVEN\n"))
    task.module.GIVEN = batches  # type: ignore[attr-defined]
    return task.batches("x")


DATA = TensorDataset(torch.arange(6.0).reshape(6, 1))


def test_a_loader_that_shuffles_is_refused_by_name(tmp_path: Path) -> None:
    loaders = [
        DataLoader(DATA, batch_size=2, shuffle=True),
        DataLoader(DATA, batch_size=2, sampler=RandomSampler(DATA)),
        DataLoader(DATA, batch_sampler=BatchSampler(RandomSampler(DATA), 2, drop_last=False)),
    ]
    for loader in loaders:
        with pytest.raises(DataError, match="RandomSampler"):
            returning_batches(tmp_path, loader)


def test_a_loader_in_order_becomes_a_list(tmp_path: Path) -> None:
    found = returning_batches(tmp_path, DataLoader(DATA, batch_size=4))
    assert isinstance(found, list)
    assert [len(batch[0]) for batch in found] == [4, 2]


@pytest.mark.parametrize("nothing", [[], iter(()), [torch.zeros(0, 3)]])
def test_no_data_is_an_error(tmp_path: Path, nothing: object) -> None:
    with pytest.raises(DataError):
        returning_batches(tmp_path, nothing)


def test_the_protocol_is_what_a_class_can_also_be() -> None:
    class Own:
        definitions: ClassVar[dict[str, Any]] = {"task": "own"}
        notes: ClassVar[list[str]] = []

        def load(self, checkpoint: str) -> nn.Module:
            return nn.Identity()

        def batches(self, data: str) -> list[Tensor]:
            return [torch.zeros(1)]

        def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
            return model(batch).mean()

    task: Task = Own()
    assert task.loss(task.load(""), task.batches("")[0]) == 0
