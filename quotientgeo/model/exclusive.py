"""One call at a time on one model: its tensors are swapped during a forward pass, which a second thread must not see."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from quotientgeo.errors import ArgumentError

_Owner = tuple[int, int]  # process and thread
_FREED = threading.Condition()
_OWNERS: dict[int, tuple[_Owner, int]] = {}  # id of a module -> who is inside with it, and how often


@contextmanager
def exclusive(model: nn.Module) -> Iterator[None]:
    """Inside, no other thread is inside with a module of the same model: it waits. A thread that is inside may enter again.

    Modules count one by one, since it is in them that tensors are swapped: a wrapper and what it wraps exclude each other.

    Raises:
        ArgumentError: the model is in use elsewhere and will not become free: the thread is inside with another model, for
            which the other thread may wait; or the process was forked while the model was measured, whose weights are
            then what was being tried.
    """
    owner, parts = (os.getpid(), threading.get_ident()), list(map(id, model.modules()))
    with _FREED:
        while taken := {_OWNERS[part][0] for part in parts if part in _OWNERS} - {owner}:
            _refuse_in_vain(type(model).__name__, owner, taken)
            _FREED.wait()
        for part in parts:
            _OWNERS[part] = (owner, _OWNERS.get(part, (owner, 0))[1] + 1)
    try:
        yield
    finally:
        with _FREED:
            for part in parts:
                count = _OWNERS.pop(part)[1] - 1
                if count:
                    _OWNERS[part] = (owner, count)
            _FREED.notify_all()


def _refuse_in_vain(name: str, owner: _Owner, taken: set[_Owner]) -> None:
    if any(process != owner[0] for process, _ in taken):
        raise ArgumentError(
            f"this process was forked while the {name} was being measured, so it has the weights that were being tried: "
            "load the model in the new process, or fork before measuring"
        )
    if any(other == owner for other, _ in _OWNERS.values()):
        raise ArgumentError(
            f"the {name} is in use by another thread, and this thread is inside another call (a loss, a progress callback?): "
            "both could wait for each other for ever; make the calls one after another"
        )
