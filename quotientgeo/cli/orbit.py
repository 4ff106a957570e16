"""``quotientgeo orbit``: write a checkpoint that computes the same function with other weights."""

from __future__ import annotations

import json as jsonlib
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quotientgeo.cli.options import Checkpoint, Json, Symmetries, condition_number

if TYPE_CHECKING:
    from torch import nn

_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
EXACT = 1e-12  # relative change of the outputs under the move in float64, for each unit of the condition number,
LARGEST = 1e-6  # and for any condition number
HELD = 1e-2  # relative change of the outputs as written, by rounding to the types in which the weights are stored,
ROUNDINGS = 32  # and times the resolution of the coarsest of these types, if that is more: bfloat16 cannot do better


def _free(out: Path) -> Path:
    """Refuse a folder that would be refused in the end, before any work is done."""
    if out.is_dir() and any(out.iterdir()):
        raise typer.BadParameter(
            f"{out} exists and is not empty: it is not overwritten; choose another folder or remove it"
        )
    return out


Out = Annotated[
    Path, typer.Argument(metavar="OUT", callback=_free, help="The folder to write; it must be new or empty.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the group elements.")]
Condition = Annotated[
    float,
    typer.Option(
        callback=condition_number,
        help="Condition number of each group element, >= 1; 1 gives rotations, which change no norm.",
    ),
]
Translations = Annotated[
    float, typer.Option(min=0.0, help="Standard deviation of the amounts by which free biases move.")
]


def orbit(
    checkpoint: Checkpoint,
    out: Out,
    seed: Seed = 0,
    condition: Condition = 10.0,
    translations: Translations = 0.0,
    symmetries: Symmetries = "attention",
    json: Json = False,
) -> None:
    """Move CHECKPOINT along the orbits of all its blocks and write it to OUT.

    OUT is a Hugging Face folder like CHECKPOINT: the same files, names and types of tensors. That it computes the same
    function is tested on made-up inputs before and after it is written. Exit code 0: written. 2: an error.
    """
    import quotientgeo
    from quotientgeo.cli.display import output, working
    from quotientgeo.errors import SymmetryError
    from quotientgeo.tasks import difference, quiet_transformers, random_inputs, require_folder, require_free

    require_free(out, require_folder(checkpoint))
    with working(f"loading {checkpoint}"), quiet_transformers():
        model = quotientgeo.load_checkpoint(checkpoint).double()
        graph = quotientgeo.symmetry_graph(model, symmetries=symmetries)
        inputs = random_inputs(model)
    if not graph.blocks:
        raise SymmetryError(
            f"{checkpoint}: no block is declared under symmetries={symmetries!r}: there is nothing to move"
        )
    with working(f"verifying and moving {len(graph.blocks)} blocks"):
        graph.verify(inputs).require()
        moved = deepcopy(model)
        moved.load_state_dict(graph.move(seed, condition, translations=translations))
        exact = difference(model, moved, inputs)
        if not exact <= min(EXACT * max(condition, 1e3), LARGEST):
            raise SymmetryError(
                f"{checkpoint}: the moved weights change the outputs by {exact:.1e} (relative) in float64: "
                "use a smaller condition"
            )
    with working(f"writing {out}"):
        written = _write(moved, out, checkpoint, lambda found: difference(model, found, inputs))
    found: dict[str, Any] = {"checkpoint": checkpoint, "out": str(out), "blocks": len(graph.blocks), "seed": seed}
    found |= {"condition": condition, "translations": translations, "symmetries": symmetries}
    found |= {"difference_float64": exact, "difference_written": written, "stored_dtypes": stored_dtypes(out)}
    if json:
        typer.echo(jsonlib.dumps(found, sort_keys=True))
        return
    for line in described(found):
        output().print(line, markup=False, soft_wrap=True)


def _write(moved: nn.Module, out: Path, like: str, change: Callable[[nn.Module], float]) -> float:
    """``change`` of the model as written. SymmetryError, and nothing is left at ``out``, where rounding changed the function."""
    import torch

    import quotientgeo
    from quotientgeo.errors import SymmetryError
    from quotientgeo.tasks import quiet_transformers

    existed = out.is_dir()
    quotientgeo.save_checkpoint(moved, out, like=like)
    with quiet_transformers():
        written = change(quotientgeo.load_checkpoint(out))
    types = stored_dtypes(out)
    bound = max(HELD, *(ROUNDINGS * torch.finfo(getattr(torch, name)).eps for name in types))
    if not written <= bound:
        shutil.rmtree(out)
        if existed:
            out.mkdir()
        raise SymmetryError(
            f"{like}: the moved weights change the outputs by {written:.1e} (relative) once they are rounded to "
            f"{', '.join(types)}, more than {bound:.0e}, so nothing was written: use a smaller condition, or store them wider, "
            "in Python, with quotientgeo.save_checkpoint(..., dtype=torch.float64)"
        )
    return written


def described(found: dict[str, Any]) -> list[str]:
    """The result in words."""
    types = ", ".join(found["stored_dtypes"])
    rounded = found["difference_written"] > 1e-3
    return [
        f"{found['out']}: {found['blocks']} blocks of {found['checkpoint']} moved, condition {found['condition']:g}, "
        f"seed {found['seed']}",
        f"outputs differ by {found['difference_float64']:.1e} (relative) in float64, by {found['difference_written']:.1e} as "
        f"written in {types}",
        *([f"so much is rounding in {types}: a smaller --condition leaves less"] if rounded else []),
    ]


def stored_dtypes(folder: Path) -> list[str]:
    """Types of the floating tensors in a folder's model.safetensors, by its header."""
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", framework="pt") as file:
        found = {str(file.get_slice(name).get_dtype()) for name in file.keys()}  # noqa: SIM118  (no mapping)
    return sorted(_TYPES[name] for name in found if name in _TYPES)
