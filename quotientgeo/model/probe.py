"""Running a model at other parameters in float64, and comparing everything it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from quotientgeo.errors import ArgumentError, LossError, ModeError, SymmetryError, first_line, some_of
from quotientgeo.model.structure import map_tensors

Forward = Callable[[nn.Module, Any], Any]
_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_NARROWING = {Tensor.float, Tensor.half, Tensor.bfloat16}
# keys and values themselves move along the orbit; only what is computed from them does not
_CACHES = ("past_key_values", "cache", "mems")


class _InDouble(TorchFunctionMode):
    """Casts to narrower floats become casts to float64: models keep float32 islands (softmax, norms, rotary tables), whose
    rounding would be mistaken for a broken symmetry. Narrower tensors from outside the model (class weights that a loss holds,
    a teacher's weights) are read in float64 wherever they meet an operation; nothing is written into copies of them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        func = Tensor.double if func in _NARROWING else func
        written = args[:1] if _writes(getattr(func, "__name__", "")) else ()
        wide = {key: value if key == "out" else _wide(value) for key, value in (kwargs or {}).items()}
        return func(*written, *(_wide(value) for value in args[len(written) :]), **wide)


def _writes(name: str) -> bool:
    """Whether an operation of this name writes into its first argument, or is an attribute of it."""
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name in ("__get__", "__set__", "__delete__", "__setitem__") or name.startswith("__i")


def _wide(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in _NARROW else value
    if isinstance(value, Tensor):
        return value.double() if value.dtype in _NARROW else value
    if type(value) in (tuple, list):
        return type(value)(_wide(item) for item in value)
    return value


class _Call(nn.Module):
    """``forward(model, batch)`` as a module, so that functional_call can swap the model's tensors."""

    def __init__(self, model: nn.Module, forward: Forward):
        super().__init__()
        self.model = model
        self._forward = forward

    def forward(self, batch: Any) -> Any:
        return self._forward(self.model, batch)


class Probe:
    """The outputs of a model on one batch as a function of its parameters, in float64.

    The model is not touched: tensors are swapped in for the call (functional_call), buffers are copies.
    """

    def __init__(self, model: nn.Module, batch: Any, forward: Forward | None):
        self._default = forward is None
        self._call = _Call(model, forward or default_forward)
        self._call.training = model.training
        self._buffers = {f"model.{name}": _double(b) for name, b in model.named_buffers()}
        self._batch = map_floats(batch)
        self._rewritten: frozenset[str] | None = (
            None  # parameters that the forward pass writes into; None before the first
        )

    def __call__(self, params: Mapping[str, Tensor], seed: int) -> dict[str, Tensor]:
        """All floating tensors of the output, by where they were found. ``seed`` is for what the forward pass draws."""
        known = self._rewritten
        given = {f"model.{name}": p.clone() if known is None or name in known else p for name, p in params.items()}
        buffers = {name: b.clone() for name, b in self._buffers.items()}
        with seeded(seed, {p.device for p in params.values()}), _InDouble():
            output = self._output(given | buffers)
        if known is None:
            self._rewritten = frozenset(name for name in params if given[f"model.{name}"]._version > 0)
        found: dict[str, Tensor] = {}
        _collect(output, "", found)
        if not found:
            who = "the forward pass" if self._default else "forward(model, batch)"
            what = "None" if output is None else f"no floating tensor (a {type(output).__name__})"
            more = ": pass forward=, a function of model and batch" if self._default else ""
            raise SymmetryError(f"{who} returned {what}, so nothing can be compared{more}")
        return found

    def _output(self, tensors: Mapping[str, Tensor]) -> Any:
        try:
            return torch.func.functional_call(self._call, dict(tensors), (self._batch,))
        except RuntimeError as error:
            if "dtype" not in str(error) and "scalar type" not in str(error):
                raise
            raise LossError(
                f"the forward pass failed with {first_line(error)!r}: symmetries are verified in float64; let what the "
                "loss or the model holds besides its parameters follow them, for instance weight.to(logits.dtype)"
            ) from error


@contextmanager
def seeded(seed: int, devices: Iterable[torch.device] = ()) -> Iterator[None]:
    """Random numbers drawn inside start from ``seed``, on the CPU and on ``devices``; afterwards every generator is where it was.

    Devices that are not named are left alone: ``torch.manual_seed`` would seed all of them, and for good.
    """
    places: dict[str, set[int]] = {}
    for device in devices:
        if device.type not in ("cpu", "meta"):
            places.setdefault(device.type, set()).add(device.index or 0)
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        torch.default_generator.manual_seed(seed)
        for kind, indices in places.items():
            stack.enter_context(torch.random.fork_rng(devices=sorted(indices), device_type=kind))
            for index in indices:
                torch.get_device_module(kind).default_generators[index].manual_seed(seed)
        yield


def default_forward(model: nn.Module, batch: Any) -> Any:
    """``model(**batch)`` for a mapping, ``model(*batch)`` for a tuple or list, ``model(batch)`` otherwise.

    ``ArgumentError`` where the signature of the model's forward does not take these arguments.
    """
    args, named = _arguments(batch)
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):  # compiled code
        signature = None
    try:
        if signature is not None:
            signature.bind(*args, **named)
    except TypeError as error:
        call = "**batch" if named else "*batch" if isinstance(batch, (tuple, list)) else "batch"
        raise ArgumentError(
            f"{type(model).__name__} cannot be called as model({call}) on this {type(batch).__name__} batch ({error}): pass "
            "forward=, for instance forward=lambda model, batch: model(batch[0])"
        ) from error
    return model(*args, **named)


def _arguments(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(batch, Mapping):
        return (), dict(batch)
    return (tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)), {}


def require_evaluation_mode(model: nn.Module) -> None:
    """``ModeError``, with the modules named, in training mode: dropout makes outputs random, and batch statistics make them
    depend on more than parameters."""
    training = [name or "the model itself" for name, module in model.named_modules() if module.training]
    if training:
        raise ModeError(
            f"the model is in training mode ({some_of(training, 3)}): call model.eval() first, or ask for it with "
            "allow_training_mode=True (one dropout mask, drawn from the seed; batch statistics untouched)"
        )


def map_floats(value: Any) -> Any:
    """The same structure with floating tensors in float64."""
    return map_tensors(value, _double)


def _double(tensor: Tensor) -> Tensor:
    return tensor.detach().double() if tensor.is_floating_point() else tensor


def _collect(value: Any, path: str, found: dict[str, Tensor]) -> None:
    if isinstance(value, Tensor):
        if value.is_floating_point() and value.numel():
            found[path or "output"] = value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in _CACHES:
                _collect(item, f"{path}.{key}" if path else str(key), found)
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            _collect(item, f"{path}[{index}]", found)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            if field.name not in _CACHES:
                _collect(getattr(value, field.name), f"{path}.{field.name}" if path else field.name, found)
