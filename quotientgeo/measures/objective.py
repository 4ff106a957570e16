"""The loss of one batch as a function of parameter tensors, without touching the model's own weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from numbers import Real
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from quotientgeo.errors import LossError
from quotientgeo.measures.batches import Batch, split_batch
from quotientgeo.measures.tables import Reads, Table
from quotientgeo.model.probe import seeded

REENTRANT = (
    "the model recomputes activations by reentrant gradient checkpointing, which gives no gradients here: call "
    "model.gradient_checkpointing_disable(), or use checkpoint(..., use_reentrant=False)"
)

_SPLIT_ROUNDING = 1e3  # rounding errors that the sum over two examples may differ by from that of each alone

Loss = Callable[[nn.Module, Batch], Any]
Parameters = Mapping[str, Tensor]
Result = TypeVar("Result")


def model_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The default loss: the one a Hugging Face model computes itself from labels in a dict batch (a mean)."""
    if not isinstance(batch, Mapping):
        raise LossError(
            f"loss=None needs dict batches with labels, got a {type(batch).__name__}: pass loss(model, batch)"
        )
    loss = getattr(model(**batch), "loss", None)
    if loss is None:
        raise LossError(
            "loss=None, but the model returned no .loss: put labels into the batches or pass loss(model, batch)"
        )
    return loss


class _Bound(nn.Module):
    """Makes loss(model, batch) a forward, so that functional_call can swap the parameters under it."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.reads: Reads | None = None

    def forward(self, batch: Batch, then: Callable[[Any], Result]) -> Result:
        """``then`` of the loss, while the parameters are still swapped: a checkpointed layer runs again in the backward pass."""
        with nullcontext() if self.reads is None else self.reads:
            out = self.loss(self.model, batch)
        return then(out)


class Objective:
    """L(parameters) on one batch, with its gradient, micro-batch by micro-batch.

    ``loss(model, batch)`` returns ``(sum, count)`` or a mean scalar. Only the first kind may be split: a mean over parts
    with unequal counts is not the mean over the whole. Sums are added up in float64. ``constants`` are buffers to be used
    in place of the model's own, ``aliases`` further names of a parameter whose memory the model holds twice. With a
    ``training_seed`` every evaluation sees the same random numbers, so that a model in training mode still has one loss
    function. Of the embeddings in ``tables`` the parameters given are the read rows alone.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss | None,
        batch: Batch,
        micro_batch_size: int | None = None,
        constants: Parameters | None = None,
        training_seed: int | None = None,
        aliases: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._batch = batch
        self.micro_batches = split_batch(batch, micro_batch_size)
        self._constants = {f"model.{name}": tensor for name, tensor in (constants or {}).items()}
        self._training_seed = training_seed
        self._aliases = dict(aliases or {})
        self._bound = _Bound(model, loss if loss is not None else model_loss)
        self._tables: Mapping[str, Table] = {}

    @contextmanager
    def reading(self, tables: Mapping[str, Table]) -> Iterator[None]:
        """Inside, parameters named in ``tables`` are compact: their read rows alone."""
        self._tables, before = tables, self._tables
        try:
            yield
        finally:
            self._tables = before

    def value(self, parameters: Parameters) -> Tensor:
        """The loss, a float64 scalar on the device of the parameters.

        As in ``value_and_gradient`` the parameters require gradients: torch has layers that compute something else without.
        """
        leaves = {name: t.detach().requires_grad_(t.is_floating_point()) for name, t in parameters.items()}
        sums, counts = [], []
        for batch in self.micro_batches:
            with torch.enable_grad():
                part, count = self._call(leaves, batch, self._checked)
            sums.append(part.detach())
            counts.append(count.detach())
        return _total(sums) / _total(counts)

    @contextmanager
    def watched(self, reads: Reads) -> Iterator[None]:
        """Inside, ``reads`` sees every forward pass."""
        self._bound.reads = reads
        try:
            with reads.hooks():
                yield
        finally:
            self._bound.reads = None

    def require_separable(self, parameters: Parameters) -> None:
        """Refuse to split a loss that is no sum over examples, as far as two of them tell."""
        if len(self.micro_batches) == 1 or self._training_seed is not None:
            return
        two = split_batch(self._batch, 2)[0]
        with torch.no_grad():
            together, apart = ([self._call(parameters, b, self._checked) for b in split_batch(two, k)] for k in (2, 1))
        (whole, count), (parts, counts) = (
            (float(_total([s for s, _ in found])), float(_total([c for _, c in found]))) for found in (together, apart)
        )
        rounding = _SPLIT_ROUNDING * torch.finfo(together[0][0].dtype).eps * max(abs(whole), abs(parts))
        if abs(whole - parts) > rounding or count != counts:
            raise LossError(
                f"micro_batch_size was given, but of two examples the loss is ({whole:.9g}, {count:g}) and one by one "
                f"({parts:.9g}, {counts:g}): either examples are compared with each other, or a tensor of the batch does not "
                "hold one row per example; drop micro_batch_size"
            )

    def value_and_gradient(
        self, parameters: Parameters, names: Collection[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor | None]]:
        """The loss and its gradient by tensor, of those named only; None for a tensor that the loss does not use.

        Raises:
            LossError: the loss uses none of the tensors named, or breaks its contract.
        """
        wanted = [n for n, t in parameters.items() if t.is_floating_point() and (names is None or n in names)]
        leaves = {name: parameters[name].detach().requires_grad_() for name in wanted}
        constants = {name: tensor.detach() for name, tensor in parameters.items() if name not in leaves}
        gradients: dict[str, Tensor | None] = dict.fromkeys(leaves)
        sums, counts = [], []
        for batch in self.micro_batches:
            with torch.enable_grad():
                part, count, found = self._call(
                    leaves | constants, batch, lambda out: self._differentiated(out, list(leaves.values()))
                )
            for name, g in zip(leaves, found, strict=True):
                if g is not None:
                    held = gradients[name]
                    gradients[name] = g if held is None else held + g
            sums.append(part)
            counts.append(count)
        if all(g is None for g in gradients.values()):
            raise LossError(
                "the loss does not use the parameters of the model that it is given: loss(model, batch) must call its argument "
                "model, not another one"
            )
        total = _total(counts)
        if len(self.micro_batches) > 1:
            gradients = {name: g if g is None else g / total.to(g.dtype) for name, g in gradients.items()}
        return _total(sums) / total, gradients

    def _differentiated(self, out: Any, leaves: list[Tensor]) -> tuple[Tensor, Tensor, Sequence[Tensor | None]]:
        """(sum, count, gradients of the sum); of a loss in one part those of the mean, which spares a pass over them all."""
        part, count = self._checked(out)
        if not part.requires_grad:
            raise LossError(
                "the loss does not depend on the model's parameters: was it computed under no_grad, detached, or without "
                "calling the model?"
            )
        weight = torch.ones_like(part) if len(self.micro_batches) > 1 else count.reciprocal().to(part.dtype)
        try:
            with torch.autocast(part.device.type, enabled=False):  # for forward passes; a backward follows its forward
                found = torch.autograd.grad(part, leaves, weight, allow_unused=True)
        except RuntimeError as error:
            if "use_reentrant" not in str(error):
                raise
            raise LossError(REENTRANT) from error
        return part.detach(), count.detach(), found

    def _checked(self, out: Any) -> tuple[Tensor, Tensor]:
        """(sum, count) of what a loss returned."""
        if isinstance(out, Tensor):
            if len(self.micro_batches) > 1:
                raise LossError(
                    "micro_batch_size was given, but the loss returns a mean: means over parts with unequal counts do not add "
                    "up to the mean of the batch; return (sum, count) instead"
                )
            out = (out, 1)
        if not (isinstance(out, (tuple, list)) and len(out) == 2):
            raise LossError(f"loss(model, batch) must return (sum, count) or a scalar tensor, got {type(out).__name__}")
        part, count = out
        if not _is_number(count):
            size = f" of shape {tuple(count.shape)}" if isinstance(count, Tensor) else ""
            raise LossError(
                f"the count in (sum, count) must be one real number, the number of terms in the sum; got a "
                f"{type(count).__name__}{size}"
            )
        on_device = isinstance(count, Tensor) and count.device.type != "cpu"  # asking would wait for it
        if not on_device and count < 0:
            raise LossError(f"the count in (sum, count) must not be negative, got {float(count):g}")
        if isinstance(part, Tensor) and not part.is_floating_point():
            raise LossError(f"the loss must be a real floating-point number, got {part.dtype}")
        if not isinstance(part, Tensor) or part.numel() != 1:
            shape = tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__
            raise LossError(f"the loss must be one number, got {shape}: reduce it to a sum and return (sum, count)")
        if isinstance(count, Tensor):
            return part.reshape(()), count.to(device=part.device, dtype=torch.float64).reshape(())
        return part.reshape(()), part.new_full(
            (), float(count), dtype=torch.float64
        )  # a fill: nothing is copied to a device

    def _call(self, parameters: Parameters, batch: Batch, then: Callable[[Any], Result]) -> Result:
        """``then`` of the loss at ``parameters``. Every call sees copies of the buffers: a forward that updates statistics
        updates these."""
        shared = {other: parameters[name] for name, others in self._aliases.items() for other in others}
        buffers = {name: b.detach() for name, b in self._bound.named_buffers()} | self._constants
        tensors = {f"model.{name}": tensor for name, tensor in (*parameters.items(), *shared.items())}
        tensors |= {name: buffer.clone() for name, buffer in buffers.items()}
        if self._bound.reads is not None:
            self._bound.reads.watch({name.removeprefix("model."): tensor for name, tensor in tensors.items()})
        with ExitStack() as stack:
            for table in self._tables.values():
                handle = table.module.register_forward_pre_hook(table.look_up, with_kwargs=True)
                stack.callback(handle.remove)
            if self._training_seed is not None:
                stack.enter_context(seeded(self._training_seed, {t.device for t in parameters.values()}))
            result: Result = functional_call(self._bound, tensors, (batch, then))
            return result


def _is_number(count: Any) -> bool:
    if isinstance(count, Tensor):
        return count.numel() == 1 and not count.is_complex() and count.dtype != torch.bool
    return isinstance(count, Real) and not isinstance(count, bool)


def _total(parts: list[Tensor]) -> Tensor:
    return torch.stack([part.double() for part in parts]).sum()
