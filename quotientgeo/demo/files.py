"""What the demo leaves behind: a page, a figure, the numbers, and both checkpoints with their digits."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from quotientgeo import __version__
from quotientgeo.demo.assets import BATCH_SIZE, CHECKPOINT, DIGITS, HELD_OUT, SHIPPED, Loaded
from quotientgeo.demo.outcome import ROUNDING, Comparison, DemoResult
from quotientgeo.errors import ArgumentError
from quotientgeo.model.saving import save_checkpoint
from quotientgeo.report import Series, image_source, orbit_figure, png, render, svg, two_weights_figure

TEMPLATE = Path(__file__).parent / "templates" / "demo.html.j2"
PAGE, FIGURE, NUMBERS, RESULTS, MOVED = "index.html", "figure.png", "demo.json", "results.jsonl", "digits-vit-moved"


def writable(out: Path) -> Path:
    """``out`` as a folder that can be written to, made where it was not there; so that no work is done in vain."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise ArgumentError(f"{out} cannot be written to as a folder: {error.strerror or error}") from error
    return out


def write_demo(result: DemoResult, loaded: Loaded, out: str | Path) -> Path:
    """Write everything to the folder ``out``; files of the same names are replaced. Returns the path of the page.

    Raises ArgumentError where it cannot be written.
    """
    out = writable(Path(out))
    figure = orbit_figure(series(result))
    page = render_page(result, svg(figure))
    try:
        (out / PAGE).write_text(page, encoding="utf-8")
        (out / FIGURE).write_bytes(png(figure))
        (out / NUMBERS).write_text(result.to_json() + "\n", encoding="utf-8")
        (out / RESULTS).write_text("".join(line + "\n" for line in lines(result)), encoding="utf-8")
        for folder in (CHECKPOINT, DIGITS, HELD_OUT):
            shutil.copytree(folder, out / folder.name, dirs_exist_ok=True)
        shutil.copy(SHIPPED / "README.md", out)
        with tempfile.TemporaryDirectory(dir=out) as fresh:
            made = save_checkpoint(
                loaded.model,
                Path(fresh) / MOVED,
                like=CHECKPOINT,
                state=result.moved_state,
                dtype=torch.float64,  # rounded to float32 it would not be the network that was measured
            )
            shutil.copytree(made, out / MOVED, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise ArgumentError(f"{out}: {getattr(error, 'strerror', None) or error}") from error
    return out / PAGE


def series(result: DemoResult) -> list[Series]:
    """The sweep, measure by measure."""
    found = []
    for comparison in result.comparisons:
        points = [point for point in result.sweep if point.key == comparison.key]
        found.append(Series(comparison.name, [p.condition for p in points], [p.ratio for p in points]))
    return found


def lines(result: DemoResult) -> list[str]:
    """Each full result as one line of JSON, as ``quotientgeo sharpness --out`` writes them."""
    found = []
    for comparison in result.comparisons:
        for name, one in ((CHECKPOINT.name, comparison.before), (MOVED, comparison.after)):
            named = one.definitions | {"checkpoint": name, "data": DIGITS.name}
            found.append(replace(one, definitions=named).to_json())
    return found


def render_page(result: DemoResult, orbit_svg: str) -> str:
    """The page; everything that it shows is in it."""
    weights = result.pictured.weights
    pictured = two_weights_figure(weights, result.pictured.logits, "queries of one head")
    same = result.same
    context: dict[str, Any] = {
        "version": __version__,
        "ok": result.ok,
        "model": result.model,
        "same": same,
        "settings": result.settings,
        "comparisons": result.comparisons,
        "rounding": ROUNDING,
        "adaptive_change": result.comparisons[0].change,
        "loss_change": same.loss_change,
        "accuracy_change": same.accuracy_change,
        "weights_figure": image_source(svg(pictured)),
        "orbit_figure": image_source(orbit_svg),
        "head_shape": weights[0].shape,
        "inner": weights[0].shape[0],
        "batch_size": BATCH_SIZE,
        "command": command(result.settings),
        "facts": facts(result),
    }
    return render(TEMPLATE, context)


def command(settings: dict[str, Any]) -> str:
    """What a user would type to get the invariant row of the table."""
    options = f"--batch-size {BATCH_SIZE} --limit 0 --dtype float64"
    budget = f"--rho {settings['rho']:g} --steps {settings['steps']} --seed {settings['seed']}"
    return " \\\n    ".join(
        [
            f"quotientgeo sharpness {CHECKPOINT.name} {MOVED}",
            f"--task image-classification --data {DIGITS.name}",
            options,
            budget,
        ]
    )


def facts(result: DemoResult) -> list[tuple[str, str]]:
    """Every definition on which the numbers depend, in words."""
    first: Comparison = result.comparisons[0]
    d, model, tested = first.before.definitions, result.model, result.verification
    kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in model["kinds"].items())
    versions = ", ".join(f"{name} {version}" for name, version in d["versions"].items())
    integrated = [c.before.definitions.get("integrator_steps") for c in result.comparisons]
    s = result.settings
    return [
        ("network", f"{model['class']}, {model['total']:,} parameters, sha256 {d['model_digest'][:16]}…"),
        ("data", f"{model['digits']} of its training digits, sha256 {d['data_digest'][:16]}…"),
        ("batches", f"{d['batches']} of {d['examples_per_batch']} examples (the m of m-sharpness)"),
        ("radius", f"ρ = {d['rho']:g}, in the norm of each measure"),
        *((f"norm, {c.name}", str(c.before.definitions["norm"])) for c in result.comparisons),
        (
            "geodesics",
            f"exact; invariant in closed form, mixed in {next(filter(None, integrated), 'no')} Runge-Kutta steps",
        ),
        ("search", f"{d['maximiser']}; {d['steps']} steps from {d['starts']} start(s), seed {d['seed']}"),
        ("arithmetic", f"{d['dtype']} (stored as {', '.join(d['stored_dtypes'])}), {d['device']}"),
        ("symmetries", f"{kinds}; the rest of the weights by the adaptive recipe"),
        (
            "verified",
            f"all {tested['passed']} hold on this network: its outputs change by {tested['residual']:.0e} "
            "(relative) at most under random elements",
        ),
        (
            "move in the table",
            f"condition number {s['condition']:g}, seed {s['seed']}; a matrix of determinant 1 for each pair",
        ),
        (
            "moves in the figure",
            f"condition numbers {', '.join(f'{c:g}' for c in s['conditions'])}; seeds {s['seed']} to "
            f"{s['seed'] + s['seeds'] - 1}",
        ),
        ("versions", versions),
    ]
