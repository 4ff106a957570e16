"""Loading checkpoints completely or not at all, from local folders, without executing anything that is stored in them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from quotientgeo.errors import CheckpointError, first_line, some_of
from quotientgeo.model.architectures.registry import UNUSED
from quotientgeo.model.inventory import storage_key
from quotientgeo.model.spellings import respelled
from quotientgeo.model.weights_file import local_path, read_weights


@dataclass(frozen=True)
class LoadReport:
    """What was loaded: files read, names respelled (old to new), tensors ignored, and counts of tensors raised to float32."""

    files: tuple[str, ...]
    renamed: dict[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    raised: dict[str, int] = field(default_factory=dict)

    def notes(self) -> list[str]:
        """Sentences for a result, about everything that is not as stored."""
        found = [
            f"{count} tensors were stored in {dtype} and raised to float32" for dtype, count in self.raised.items()
        ]
        if self.ignored:
            found.append(f"stored but not part of the model, ignored: {', '.join(self.ignored)}")
        return found


def load_notes(model: nn.Module) -> list[str]:
    """What was not as stored when this model's weights were read by ``load_checkpoint`` or ``load_weights``; else nothing."""
    report = getattr(model, "load_report", None)
    return report.notes() if isinstance(report, LoadReport) else []


def load_checkpoint(
    folder: str | Path,
    model_class: type[nn.Module] | None = None,
    *,
    ignore_unexpected: str | Sequence[str] = (),
) -> nn.Module:
    """The model in a local Hugging Face folder, complete and in evaluation mode.

    model_class: the transformers class to build; None for the one that config.json names in ``architectures``.
    ignore_unexpected: one or several patterns (as in fnmatch) of stored tensors that the class may lack.

    Half-precision tensors are loaded in float32. ``model.load_report`` (a ``LoadReport``) says what is not as stored.
    Raises ``CheckpointError`` for a missing folder, config or tensor, a tensor that the class does not have, a damaged file or
    one that holds other pickled objects than tensors; nothing stored is executed.
    """
    folder = require_folder(folder)
    config = _config(folder)
    chosen = _named_class(folder, config) if model_class is None else model_class
    if not (isinstance(chosen, type) and issubclass(chosen, nn.Module)):
        raise CheckpointError(
            f"model_class must be a class such as transformers.BertForMaskedLM, got {_described(chosen)}"
        )
    ignore_unexpected = _patterns(ignore_unexpected)
    with torch.random.fork_rng(devices=[]):  # building draws random weights, all of them replaced below
        try:
            model = chosen(config)
        except Exception as error:
            raise CheckpointError(f"{folder}: {chosen.__name__} cannot be built from config.json: {error}") from error
    known = UNUSED.get(getattr(config, "model_type", ""), ())
    load_weights(model, folder, ignore_unexpected=(*ignore_unexpected, *known))
    return model


def load_weights(
    model: nn.Module, source: str | Path | Mapping[str, Tensor], *, ignore_unexpected: str | Sequence[str] = ()
) -> LoadReport:
    """Load a folder, a weights file or a mapping of tensors into ``model``, as strictly as ``load_checkpoint``.

    Every parameter and persistent buffer must be stored, of tied ones at least one; every stored tensor must have its place
    in the model, match a pattern of ``ignore_unexpected`` or be a buffer that the model makes itself. The model becomes
    float32 (float64 where a stored tensor is) and is put into evaluation mode.

    Returns the ``LoadReport``, also kept as ``model.load_report``. The model is changed only if everything fits.
    """
    ignore_unexpected = _patterns(ignore_unexpected)
    files: tuple[str, ...] = ()
    if isinstance(source, Mapping):
        stored, where = dict(source), "the given tensors"
    else:
        where = str(source)
        stored, files = read_weights(local_path(source))
    named, renamed = respelled(model, stored)
    wanted = {n: t for n, t in model.state_dict(keep_vars=True).items() if isinstance(t, Tensor)}
    ignored = _ignored(model, named.keys() - wanted.keys(), ignore_unexpected, where)
    _require_complete(wanted, named, where)
    values = {name: named[name] for name in wanted if name in named}
    _require_fitting(wanted, values, where)
    _require_ties(wanted, values, where)
    raised = _copy(model, values)
    model.eval()
    report = LoadReport(files, renamed, ignored, raised)
    model.load_report = report  # type: ignore[assignment]
    return report


def model_digest(model: nn.Module) -> str:
    """sha256 over name, dtype, shape and bytes of every parameter (tied ones once) and persistent buffer, in sorted order."""
    stored = model.state_dict(keep_vars=True)
    buffers = {n: b for n, b in model.named_buffers() if n in stored}
    digest = hashlib.sha256()
    for name, tensor in sorted((dict(model.named_parameters()) | buffers).items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(data.numpy().tobytes())
    return digest.hexdigest()


def _described(value: object) -> str:
    return repr(value) if isinstance(value, str) else f"a {type(value).__name__}"


def _patterns(patterns: str | Sequence[str]) -> tuple[str, ...]:
    """Patterns as a tuple; a string is one pattern, not a sequence of characters of which * would match everything."""
    found = (
        (patterns,) if isinstance(patterns, str) else tuple(patterns) if isinstance(patterns, Iterable) else (patterns,)
    )
    if not all(isinstance(pattern, str) for pattern in found):
        raise CheckpointError(f"ignore_unexpected must be patterns such as 'bert.pooler.*', got {patterns!r}")
    return found


def require_folder(folder: str | Path) -> Path:
    """Raises CheckpointError where ``folder`` is none, or holds no config.json."""
    path = local_path(folder)
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise CheckpointError(
            f"{path} {what}: a checkpoint is a local folder with config.json and weights; nothing is downloaded"
        )
    if not (path / "config.json").is_file():
        adapter = (path / "adapter_config.json").is_file()
        hint = (
            "this folder holds an adapter; load its base model first"
            if adapter
            else "is this the right folder? a checkpoint holds config.json and weights; for weights alone, build the model in a "
            "task file"
        )
        raise CheckpointError(f"{path} has no config.json: {hint}")
    return path


def _config(folder: Path) -> Any:
    path = folder / "config.json"
    try:
        raw = json.loads(path.read_text())
    except (ValueError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(raw, dict) or "model_type" not in raw:
        raise CheckpointError(
            f"{path} names no model_type, so its class is unknown: write a task file that builds the model, for instance "
            "BertForMaskedLM(BertConfig.from_json_file(path)), and loads it with quotientgeo.load_weights"
        )
    try:
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except ImportError as error:
        raise CheckpointError(
            "loading a Hugging Face folder needs transformers: pip install 'quotientgeo[hf]'"
        ) from error
    except Exception as error:
        raise CheckpointError(f"{path}: {first_line(error)}") from error


def _named_class(folder: Path, config: Any) -> type[nn.Module]:
    import transformers

    names = getattr(config, "architectures", None) or []
    if len(names) != 1:
        raise CheckpointError(f"{folder}/config.json names {len(names)} architectures, expected one: pass model_class")
    chosen = getattr(transformers, names[0], None)
    if not (isinstance(chosen, type) and issubclass(chosen, nn.Module)):
        raise CheckpointError(f"{folder}/config.json names the class {names[0]!r}, which transformers does not have")
    return chosen


def _ignored(model: nn.Module, unexpected: Iterable[str], patterns: Sequence[str], where: str) -> tuple[str, ...]:
    own_buffers = {name for name, _ in model.named_buffers()}
    known = getattr(model, "_keys_to_ignore_on_load_unexpected", None) or ()  # a transformers class's own list

    def allowed(name: str) -> bool:
        own = name in own_buffers or any(re.search(pattern, name) for pattern in known)
        return own or any(fnmatchcase(name, pattern) for pattern in patterns)

    names = sorted(unexpected)
    refused = [name for name in names if not allowed(name)]
    if refused:
        raise CheckpointError(
            f"{where}: {type(model).__name__} has no place for stored tensors ({len(refused)}): {some_of(refused, 8)}; "
            "choose the class that they belong to, or name them in ignore_unexpected if no output depends on them"
        )
    return tuple(names)


def _require_complete(wanted: Mapping[str, Tensor], named: Mapping[str, Tensor], where: str) -> None:
    stored = {storage_key(tensor) for name, tensor in wanted.items() if name in named}
    missing = [name for name, tensor in wanted.items() if name not in named and storage_key(tensor) not in stored]
    if missing:
        raise CheckpointError(
            f"{where}: tensors that the model needs are missing ({len(missing)}): {some_of(missing, 8)}"
        )


def _require_fitting(wanted: Mapping[str, Tensor], values: Mapping[str, Tensor], where: str) -> None:
    for name, value in values.items():
        if value.shape != wanted[name].shape:
            raise CheckpointError(
                f"{where}: {name!r} has shape {tuple(value.shape)}, the model needs {tuple(wanted[name].shape)}"
            )
        if wanted[name].is_floating_point() and not value.is_floating_point():
            raise CheckpointError(
                f"{where}: {name!r} is stored in {value.dtype} (quantised?), the model needs floating numbers"
            )
        if value.is_floating_point() and torch.finfo(value.dtype).bits < 16:
            raise CheckpointError(
                f"{where}: {name!r} is stored in {value.dtype}, and weights of 8 bits or fewer are not read yet (their scales "
                "may be kept apart): dequantise it to bfloat16 or wider first"
            )


def _require_ties(wanted: Mapping[str, Tensor], values: Mapping[str, Tensor], where: str) -> None:
    first: dict[Any, str] = {}
    for name, value in values.items():
        other = first.setdefault(storage_key(wanted[name]), name)
        if other != name and not _same(values[other], value):
            raise CheckpointError(
                f"{where}: {other!r} and {name!r} are stored with different values, but the model ties them: "
                "set tie_word_embeddings to false in config.json, or build an untied model"
            )


def _same(one: Tensor, other: Tensor) -> bool:
    """Equal everywhere, NaN to NaN: that weights are not finite is for a measure to say."""
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def _copy(model: nn.Module, values: Mapping[str, Tensor]) -> dict[str, int]:
    floating = [value.dtype for value in values.values() if value.is_floating_point()]
    dtype = torch.float64 if torch.float64 in floating else torch.float32
    model.to(dtype)
    state = model.state_dict(keep_vars=True)
    with torch.no_grad():
        for name, value in values.items():
            state[name].copy_(value)
    narrow = [str(d).removeprefix("torch.") for d in floating if torch.finfo(d).bits < 32]
    return {name: narrow.count(name) for name in sorted(set(narrow))}
