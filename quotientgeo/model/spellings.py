"""The several names under which one tensor is stored: wrappers, old norms, and layouts that transformers has renamed since."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from quotientgeo.errors import CheckpointError

# wrappers that prefix every tensor, and the norms of the first BERT checkpoints
_WRAPPERS = ("_orig_mod.", "module.")
_OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}


def respelled(model: nn.Module, stored: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Stored tensors under the names of the model, where only a known spelling differs; and the names that changed.

    A name that the model has is never touched, and one that no spelling explains stays as it is.
    """
    known = {*model.state_dict(), *(name for name, _ in model.named_buffers())}
    named: dict[str, Tensor] = {}
    renamed: dict[str, str] = {}
    prefix = _wrapper(stored, known)
    in_transformers = _transformers_names(model)
    for name, tensor in stored.items():
        new = name.removeprefix(prefix)
        for respell in (_norm_names, in_transformers):
            other = respell(new)
            new = other if new not in known and other in known else new
        if new in named:
            raise CheckpointError(f"two stored tensors are called {new!r}, one of them in an old spelling ({name!r})")
        named[new] = tensor
        if new != name:
            renamed[name] = new
    return named, renamed


def _wrapper(stored: Mapping[str, Tensor], known: set[str]) -> str:
    """The prefix that a wrapper put before every stored name, "" where there is none."""
    if not stored or any(name in known for name in stored):
        return ""
    return next((prefix for prefix in _WRAPPERS if all(name.startswith(prefix) for name in stored)), "")


def _norm_names(name: str) -> str:
    for old_end, new_end in _OLD_NAMES.items():
        if name.endswith(old_end):
            return name.removesuffix(old_end) + new_end
    return name


def _transformers_names(model: nn.Module) -> Callable[[str], str]:
    """The renamings with which transformers reads (and still writes) folders of this model in an older layout, such as ViT's.

    A tensor that it would also change (split, merge, transpose) is refused: its stored values are not the model's.
    """
    if not any(base.__module__.startswith("transformers.") for base in type(model).__mro__):
        return str
    try:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightRenaming
    except ImportError:  # releases that kept one layout in memory and on disk
        return str
    steps = get_model_conversion_mapping(model)
    renamings = [step for step in steps if type(step) is WeightRenaming]
    others = [step for step in steps if type(step) is not WeightRenaming]

    def respell(stored: str) -> str:
        name = stored
        for step in renamings:
            name, _ = step.rename_source_key(name)
        if any(step.rename_source_key(name)[1] is not None for step in others):
            raise CheckpointError(
                f"{stored!r} is stored in a layout of {type(model).__name__} that transformers splits, merges or transposes when "
                "it reads it: load the model with from_pretrained, in a task file of your own"
            )
        return str(name)

    return respell
