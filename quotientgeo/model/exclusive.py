"""One call at a time on one model: its tensors are swapped during a forward pass, which a second thread must not see."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

# by id: a module may define == without a hash, and a lock kept inside it could not be pickled
_LOCKS: dict[int, threading.RLock] = {}
_GUARD = threading.Lock()


@contextmanager
def exclusive(model: nn.Module) -> Iterator[None]:
    """Inside, no other thread is inside with the same model: it waits. A thread that is inside may enter again."""
    with _GUARD:
        lock = _LOCKS.get(id(model))
        if lock is None:
            lock = _LOCKS[id(model)] = threading.RLock()
            weakref.finalize(model, _LOCKS.pop, id(model), None)
    with lock:
        yield
