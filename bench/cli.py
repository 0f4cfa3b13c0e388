"""The command line of the benchmarks."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import click

from bench import table
from bench.child import run_in_child
from bench.history import append_run
from bench.registry import DEFAULT_GROUP, Case, Figures, MissingInputError, load_cases
from bench.traces import TRACES_VARIABLE


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", "chosen", metavar="CASE", multiple=True, help="Run this case; may be repeated.")
@click.option(
    "--group",
    "groups",
    metavar="GROUP",
    multiple=True,
    help="Run the cases of this group; may be repeated. [default: usual; all with --record]",
)
@click.option("--list", "listed", is_flag=True, help="Name the cases and run none.")
@click.option("--json", "as_json", is_flag=True, help="All figures as JSON.")
@click.option("--record", is_flag=True, help="Also add the run, with machine and commit, to bench/history.jsonl.")
@click.option(
    "--traces",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=f"Where the published traces lie. [default: {TRACES_VARIABLE}, else shared/traces next to the checkout]",
)
@click.pass_context
def bench(
    ctx: click.Context,
    chosen: tuple[str, ...],
    groups: tuple[str, ...],
    listed: bool,
    as_json: bool,
    record: bool,
    traces: Path | None,
) -> None:
    """Measure each case in a process of its own, one after another. Exits with 1 when a case fails or misses its
    bar."""
    picked = _selected_cases(chosen, groups, everything=listed or record)
    if listed:
        for case in picked:
            click.echo(f"{case.group:8} {case.name:28} {case.title}")
        return
    if traces is not None:
        os.environ[TRACES_VARIABLE] = str(traces.resolve())
    results: list[tuple[Case, Figures | str]] = []
    for case in picked:
        click.echo(f"{case.name} ...", err=True)
        try:
            results.append((case, run_in_child(case.name)))
        except MissingInputError as absent:
            click.echo(f"{case.name}: {absent}", err=True)
    click.echo(_results_json(results) if as_json else table.terminal_tables(results), nl=False)
    if record:
        append_run(results)
    problems = [problem for case, result in results for problem in table.missed_bars(case, result)]
    for problem in problems:
        click.echo(problem, err=True)
    ctx.exit(1 if problems else 0)


def _selected_cases(chosen: tuple[str, ...], groups: tuple[str, ...], everything: bool) -> list[Case]:
    """Return the cases that are named, those of the groups that are named, or else the usual ones."""
    known = load_cases()
    if unknown := [name for name in chosen if name not in known]:
        raise click.BadParameter(f"there is no case {unknown[0]!r}; see --list", param_hint="--only")
    there = {case.group for case in known.values()}
    if strange := [group for group in groups if group not in there]:
        raise click.BadParameter(
            f"there is no group {strange[0]!r}, only {', '.join(sorted(there))}", param_hint="--group"
        )
    if not chosen and not groups:
        return [case for case in known.values() if everything or case.group == DEFAULT_GROUP]
    return [case for case in known.values() if case.name in chosen or case.group in groups]


def _results_json(results: table.Results) -> str:
    rows = [
        {
            "name": case.name,
            "title": case.title,
            "bars": {"seconds": case.seconds, "peak": case.peak},
            "missed": table.missed_bars(case, result),
            "figures": dataclasses.asdict(result) if isinstance(result, Figures) else None,
        }
        for case, result in results
    ]
    return json.dumps(rows, indent=2) + "\n"
