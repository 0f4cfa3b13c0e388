"""The command line: which cases, how large, and their figures as a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import click

from bench.reconcile.bed import Row, Sizes
from bench.reconcile.gangs import empty_world, measure_gangs, measure_late
from bench.reconcile.gates import measure_gates
from bench.reconcile.nodes import measure_node, measure_one_more
from bench.reconcile.objects import measure_cold, measure_drift, objects_world
from bench.reconcile.outage import measure_restart
from bench.reconcile.replays import measure_replays
from bench.table import aligned_lines

World = Callable[[Sizes], AbstractContextManager[Any]]
Measure = Callable[[Any, Sizes], Iterator[Row]]
WORLDS: tuple[tuple[World, dict[str, Measure]], ...] = (
    (empty_world, {"gangs": measure_gangs}),
    (empty_world, {"late": measure_late}),
    (objects_world, {"drift": measure_drift, "cold": measure_cold}),
    (empty_world, {"gates": measure_gates}),
    (empty_world, {"node": measure_node}),
    (empty_world, {"restart": measure_restart}),
    (empty_world, {"one-more": measure_one_more}),
    (empty_world, {"replays": measure_replays}),
)
"""The world before the measurement, and the cases that share it by name."""
CASES = tuple(name for _, measures in WORLDS for name in measures)


@click.command()
@click.argument("cases", nargs=-1, type=click.Choice(CASES))
@click.option("--gangs", type=click.IntRange(1), help="Gangs. [default: 200; 1000 for one-more]")
@click.option("--pods", default=8, show_default=True, type=click.IntRange(1), help="Pods of a gang.")
@click.option("--objects", default=10_000, show_default=True, type=click.IntRange(1), help="For drift and cold.")
@click.option("--nodes", default=10_000, show_default=True, type=click.IntRange(1), help="For one-more.")
@click.option("--busy", default=0, show_default=True, type=click.IntRange(0), help="Busy processes, gangs and late.")
@click.pass_context
def reconcile(
    ctx: click.Context, cases: tuple[str, ...], gangs: int | None, pods: int, objects: int, nodes: int, busy: int
) -> None:
    """Measure the reconciler's bars on a real control plane; without CASES the throughput of gangs. Exits with 1 when a
    bar is missed."""
    sizes, rows = Sizes(gangs, pods, objects, nodes, busy), list[Row]()
    for world, measures in WORLDS:
        chosen = [name for name in measures if name in (cases or ("gangs",))]
        rows += _measure(world, [measures[name] for name in chosen], sizes) if chosen else []
    click.echo("\n".join(aligned_lines(["case", "what", "figure", "bar"], [row.cells() for row in rows])))
    click.echo(f"load of the machine: {os.getloadavg()[0]:.1f}")
    ctx.exit(1 if any(row.is_missed for row in rows) else 0)


def _measure(world: World, measures: list[Measure], sizes: Sizes) -> Iterator[Row]:
    """Yield the rows, and print them at once."""
    with world(sizes) as standing:
        for measure in measures:
            for row in measure(standing, sizes):
                click.echo("  ".join(row.cells()), err=True)
                yield row


if __name__ == "__main__":
    reconcile()
