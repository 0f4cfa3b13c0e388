"""Figures as a table: for a terminal, and as Markdown between two markers of a page."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence

from bench.registry import Case, Figures, Quality

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
PHASES = ("import", "state", "read", "check", "lower", "solve", "verify", "emit")
PARTS = ("greedy", "admit", "spread", "grow", "reasons")
QUALITY = (
    *("GPUs asked", "placed", "LP bound", "placed/bound", "greedy alone"),
    *("gangs", "started", "greedy alone"),
    *("proven", "within gap", "limit reached", "spread/bound"),
)
MIB = 1 << 20

Results = Sequence[tuple[Case, Figures | str]]
"""Each case with its figures, or with why there are none."""

Table = tuple[str, list[str], list[list[str]]]
"""Title, heads, rows; the first column is text, all others are figures."""


def missed(case: Case, result: Figures | str) -> list[str]:
    """The bars that the case misses, in words; a case without figures misses all there are."""
    if isinstance(result, str):
        return [f"{case.name}: {result}"]
    found = []
    if case.seconds is not None and result.seconds > case.seconds:
        found.append(f"{case.name}: {result.seconds:.1f} s, the bar is {case.seconds:g} s")
    if case.peak is not None and result.peak > case.peak:
        found.append(f"{case.name}: {result.peak // MIB} MiB, the bar is {case.peak // MIB} MiB")
    return found + [f"{case.name}: it does not hold that {claim}" for claim, held in result.claims.items() if not held]


def tables(results: Results) -> list[Table]:
    whole = [[case.title, *_whole(case, result)] for case, result in results]
    good = [(case, result) for case, result in results if isinstance(result, Figures)]
    phased = [
        [case.name, *_seconds(result.phases, PHASES), *_seconds(result.parts, PARTS)]
        for case, result in good
        if result.phases
    ]
    judged = [[case.name, *_quality(result.quality)] for case, result in good if result.quality is not None]
    made: list[Table] = [("Seconds and memory", ["case", "name", "seconds", "bar", "cpu s", "peak MiB", "bar"], whole)]
    if phased:
        made.append(("Seconds by phase; on the right the parts of solve", ["name", *PHASES, *PARTS], phased))
    if judged:
        made.append(("What the plan starts, against a bound and against the greedy alone", ["name", *QUALITY], judged))
    return made + _compared(good)


def _compared(results: Sequence[tuple[Case, Figures]]) -> list[Table]:
    """The comparisons, those of one title under one another, and what the cases promise."""
    made: dict[str, Table] = {}
    for _, result in results:
        if (found := result.comparison) is not None:
            made.setdefault(found.title, (found.title, list(found.heads), []))[2].extend(
                list(row) for row in found.rows
            )
    claims = [[case.name, *_claims(result.claims)] for case, result in results if result.claims]
    return [*made.values(), *([("Promised besides", ["name", "held", "of", "what"], claims)] if claims else [])]


def _claims(claims: Mapping[str, bool]) -> list[str]:
    """How many held, of how many, and which did not; all of them where all held."""
    wrong = [claim for claim, held in claims.items() if not held]
    return [
        str(len(claims) - len(wrong)),
        str(len(claims)),
        "; ".join(f"MISSED: {claim}" for claim in wrong) or "; ".join(claims),
    ]


def _whole(case: Case, result: Figures | str) -> list[str]:
    if isinstance(result, str):
        return [case.name, "failed", *[""] * 4]
    seconds, peak = (case.seconds, result.seconds), (case.peak, result.peak)
    return [
        case.name,
        f"{result.seconds:.2f}",
        _bar(*seconds, 1, "s"),
        f"{result.cpu:.2f}",
        f"{result.peak / MIB:.0f}",
        _bar(*peak, MIB, "MiB"),
    ]


def _bar(most: float | None, value: float, unit: int, word: str) -> str:
    return "" if most is None else f"<= {most / unit:g} {word} {'held' if value <= most else 'MISSED'}"


def _seconds(found: Mapping[str, float], names: Sequence[str]) -> list[str]:
    return [f"{found[name]:.2f}" if name in found else "" for name in names]


def _quality(q: Quality) -> list[str]:
    ratio = f"{q.placed / q.bound:.2%}" if q.bound else ""
    verdicts = [str(q.verdicts.get(verdict, 0)) for verdict in ("proven", "within gap", "limit reached")]
    spread = f"{q.spread[0]:g}/{q.spread[1]:g}" if q.spread is not None else ""
    return [
        str(q.asked),
        str(q.placed),
        str(q.bound),
        ratio,
        str(q.greedy[1]),
        str(q.gangs),
        str(q.started),
        str(q.greedy[0]),
        *verdicts,
        spread,
    ]


def text(results: Results) -> str:
    return "\n\n".join("\n".join([title, *_lines(heads, rows)]) for title, heads, rows in tables(results)) + "\n"


def _lines(heads: list[str], rows: list[list[str]]) -> list[str]:
    wide = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    return [
        "  ".join(cell.rjust(wide[i]) if i else cell.ljust(wide[i]) for i, cell in enumerate(row)).rstrip()
        for row in (heads, *rows)
    ]


def markdown(results: Results) -> str:
    """The tables and the machine, without the markers. No date: the page's history has it."""
    machine = f"One run on {os.cpu_count()} cores, Python {platform.python_version()}."
    parts = [machine]
    for title, heads, rows in tables(results):
        rule = ["---", *["---:"] * (len(heads) - 1)]
        parts.append("\n".join([f"{title}:", "", *(f"| {' | '.join(row)} |" for row in (heads, rule, *rows))]))
    return "\n\n".join(parts)


def refreshed(page: str, results: Results) -> str:
    """The page with what stands between the markers replaced. Raises ValueError for a page without them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{markdown(results)}\n{END}{after}"
