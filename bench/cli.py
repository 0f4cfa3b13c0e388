"""The command line of the benchmarks."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from bench import table
from bench.child import apart
from bench.registry import Case, Figures, cases


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", "chosen", metavar="CASE", multiple=True, help="Run this case; may be repeated. [default: all]")
@click.option("--list", "listed", is_flag=True, help="Name the cases and run none.")
@click.option("--json", "as_json", is_flag=True, help="All figures as JSON.")
@click.option(
    "--markdown",
    "page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"Also put the tables into this page, between {table.BEGIN} and {table.END}.",
)
@click.pass_context
def bench(ctx: click.Context, chosen: tuple[str, ...], listed: bool, as_json: bool, page: Path | None) -> None:
    """Measure each case in a process of its own, one after another. Exits with 1 when a case fails or misses its bar."""
    known = cases()
    if unknown := [name for name in chosen if name not in known]:
        raise click.BadParameter(f"there is no case {unknown[0]!r}; see --list", param_hint="--only")
    picked = [case for case in known.values() if not chosen or case.name in chosen]
    if listed:
        for case in picked:
            click.echo(f"{case.name:18} {case.title}")
        return
    results: list[tuple[Case, Figures | str]] = []
    for case in picked:
        click.echo(f"{case.name} ...", err=True)
        results.append((case, apart(case.name)))
    click.echo(_json(results) if as_json else table.text(results), nl=False)
    if page is not None:
        page.write_text(table.refreshed(page.read_text(), results))
    problems = [problem for case, result in results for problem in table.missed(case, result)]
    for problem in problems:
        click.echo(problem, err=True)
    ctx.exit(1 if problems else 0)


def _json(results: table.Results) -> str:
    rows = [
        {
            "name": case.name,
            "title": case.title,
            "bars": {"seconds": case.seconds, "peak": case.peak},
            "missed": table.missed(case, result),
            "figures": dataclasses.asdict(result) if isinstance(result, Figures) else None,
        }
        for case, result in results
    ]
    return json.dumps(rows, indent=2) + "\n"
