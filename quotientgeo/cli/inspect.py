"""``quotientgeo inspect``: the symmetries of a checkpoint, and which of its parameters they reach."""

from __future__ import annotations

import json as jsonlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quotientgeo.cli.options import NOT_OK, Checkpoint, Json, Symmetries

if TYPE_CHECKING:
    from quotientgeo import SymmetryGraph

Verify = Annotated[
    bool, typer.Option("--verify", help="Test every one of them on this model, in float64, on made-up inputs.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the inputs and group elements of --verify.")]


@dataclass
class Row:
    """Blocks of one kind and shape. redundant: dimensions of the group of each."""

    kind: str
    group: str
    n: int
    m: int
    h: int
    redundant: int
    blocks: int = 0
    layers: set[int | None] = field(default_factory=set)

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        numbers = {"n": self.n, "m": self.m, "h": self.h, "blocks": self.blocks, "layers": len(self.layers)}
        return {"kind": self.kind, "group": self.group} | numbers | {"redundant": self.redundant * self.blocks}


def inspect(
    checkpoint: Checkpoint,
    verify: Verify = False,
    symmetries: Symmetries = "attention",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show the blocks of CHECKPOINT, how many of its dimensions are redundant, and what is not covered.

    Exit code 0: done. 2: an error. 3: with --verify, a symmetry does not hold on this model.
    """
    import quotientgeo
    from quotientgeo.cli.display import output, working
    from quotientgeo.tasks import quiet_transformers, random_inputs

    with working(f"loading {checkpoint}"), quiet_transformers():
        model = quotientgeo.load_checkpoint(checkpoint)
        graph = quotientgeo.symmetry_graph(model, symmetries=symmetries)
    report = None
    if verify and (graph.blocks or graph.shifts):
        with working(f"verifying {len(graph.blocks) + len(graph.shifts)} symmetries"):
            report = graph.verify(random_inputs(model, seed), seed=seed)
    rows = table_rows(graph)
    if json:
        typer.echo(jsonlib.dumps(record(checkpoint, graph, rows, symmetries, report), sort_keys=True))
    else:
        console = output()
        console.print(f"{checkpoint}: {type(model).__name__}, symmetries {symmetries}", markup=False, soft_wrap=True)
        if rows:
            console.print(drawn(rows))
        listed = ", ".join(f"{kind} {count:,}" for kind, count in rest_by_module(graph).items())
        for line in [*str(graph.coverage()).splitlines(), f"not covered: {listed or 'nothing'}", *notes(model)]:
            console.print(line, markup=False, soft_wrap=True)
        if report is not None:
            console.print(f"\n{report}", markup=False, soft_wrap=True)
    if report is not None and not report.passed:
        raise typer.Exit(NOT_OK)


def table_rows(graph: SymmetryGraph) -> list[Row]:
    """The blocks by kind and shape, in the order in which they were declared."""
    nodes = graph.graph.nodes
    rows: dict[tuple[Any, ...], Row] = {}
    for block in (*graph.blocks, *graph.shifts):
        node = nodes[block.name]
        n, m, h = node["n"], node["m"], node["h"]
        group = node["group"]
        dimension = h if isinstance(group, str) else group.dimension()
        key = (block.kind, str(group), n, m, h)
        row = rows.setdefault(key, Row(block.kind or "unnamed kind", str(group), n, m, h, dimension))
        row.blocks += 1
        row.layers.add(block.layer)
    return list(rows.values())


def rest_by_module(graph: SymmetryGraph) -> dict[str, int]:
    """Entries in no block and not frozen, by the class of the module that holds them; the largest first."""
    counts: dict[str, int] = {}
    for name, tensor in graph.coverage().tensors.items():
        kind = type(graph.model.get_submodule(name.rpartition(".")[0])).__name__
        counts[kind] = counts.get(kind, 0) + tensor.rest
    return {kind: count for kind, count in sorted(counts.items(), key=lambda item: -item[1]) if count}


def drawn(rows: list[Row]) -> Any:
    """The rows as a table."""
    from rich.table import Table

    table = Table()
    for heading in ("kind", "group"):
        table.add_column(heading, overflow="fold")
    for heading in ("blocks", "layers", "n", "m", "h", "redundant dimensions"):
        table.add_column(heading, justify="right")
    for row in rows:
        numbers = (row.blocks, len(row.layers), row.n, row.m, row.h)
        table.add_row(row.kind, row.group, *map(str, numbers), f"{row.redundant * row.blocks:,}")
    return table


def notes(model: Any) -> list[str]:
    """What of the folder is not as stored."""
    report = getattr(model, "load_report", None)
    return [] if report is None else list(report.notes())


def record(checkpoint: str, graph: SymmetryGraph, rows: list[Row], symmetries: str, report: Any) -> dict[str, Any]:
    """Everything that the table shows, and each block that failed."""
    coverage = graph.coverage()
    counts = {name: getattr(coverage, name) for name in ("total", "block", "frozen", "rest", "redundant")}
    return {
        "checkpoint": checkpoint,
        "model_class": type(graph.model).__name__,
        "symmetries": symmetries,
        "blocks": [row.plain() for row in rows],
        "parameters": counts
        | {
            "frozen_reasons": coverage.reasons,
            "tensors": len(coverage.tensors),
            "rest_by_module": rest_by_module(graph),
        },
        "uncovered_modules": list(coverage.uncovered),
        "notes": notes(graph.model),
        "verification": None if report is None else report.summary(),
    }
