"""Figures as tables, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.registry import Case, Figures, Quality

PHASES = ("import", "state", "read", "check", "lower", "solve", "verify", "emit")
SOLVE_PARTS = ("greedy", "admit", "spread", "grow", "reasons")
QUALITY_HEADS = (
    *("GPUs asked", "placed", "LP bound", "placed/bound", "greedy alone"),
    *("gangs", "started", "greedy alone"),
    *("proven", "within gap", "limit reached", "spread/bound"),
)
MIB = 1 << 20

Results = Sequence[tuple[Case, Figures | str]]
"""Each case with its figures, or with the cause of their absence."""

Table = tuple[str, list[str], list[list[str]]]
"""Title, heads, rows; the first column is text, all others are figures."""


def missed_bars(case: Case, result: Figures | str) -> list[str]:
    """Return the bars that the case misses, in words; a case without figures misses all there are."""
    if isinstance(result, str):
        return [f"{case.name}: {result}"]
    found = []
    if case.seconds is not None and result.seconds > case.seconds:
        found.append(f"{case.name}: {result.seconds:.1f} s, the bar is {case.seconds:g} s")
    if case.peak is not None and result.peak > case.peak:
        found.append(f"{case.name}: {result.peak // MIB} MiB, the bar is {case.peak // MIB} MiB")
    return found + [f"{case.name}: it does not hold that {claim}" for claim, held in result.claims.items() if not held]


def result_tables(results: Results) -> list[Table]:
    whole = [[case.title, *_case_cells(case, result)] for case, result in results]
    good = [(case, result) for case, result in results if isinstance(result, Figures)]
    phased = [
        [case.name, *_seconds_cells(result.phases, PHASES), *_seconds_cells(result.parts, SOLVE_PARTS)]
        for case, result in good
        if result.phases
    ]
    judged = [[case.name, *_quality_cells(result.quality)] for case, result in good if result.quality is not None]
    made: list[Table] = [("Seconds and memory", ["case", "name", "seconds", "bar", "cpu s", "peak MiB", "bar"], whole)]
    if phased:
        made.append(("Seconds by phase; on the right the parts of solve", ["name", *PHASES, *SOLVE_PARTS], phased))
    if judged:
        made.append(
            ("What the plan starts, against a bound and against the greedy alone", ["name", *QUALITY_HEADS], judged)
        )
    return made + _comparison_tables(good)


def _comparison_tables(results: Sequence[tuple[Case, Figures]]) -> list[Table]:
    """Return the comparisons, those of one title under one another, and what the cases promise."""
    made: dict[str, Table] = {}
    for _, result in results:
        if (found := result.comparison) is not None:
            made.setdefault(found.title, (found.title, list(found.heads), []))[2].extend(
                list(row) for row in found.rows
            )
    claims = [[case.name, *_claim_cells(result.claims)] for case, result in results if result.claims]
    return [*made.values(), *([("Also promised", ["name", "held", "of", "what"], claims)] if claims else [])]


def _claim_cells(claims: Mapping[str, bool]) -> list[str]:
    """Return how many held, of how many, and which did not; all of them where all held."""
    wrong = [claim for claim, held in claims.items() if not held]
    return [
        str(len(claims) - len(wrong)),
        str(len(claims)),
        "; ".join(f"MISSED: {claim}" for claim in wrong) or "; ".join(claims),
    ]


def _case_cells(case: Case, result: Figures | str) -> list[str]:
    if isinstance(result, str):
        return [case.name, "failed", *[""] * 4]
    seconds, peak = (case.seconds, result.seconds), (case.peak, result.peak)
    return [
        case.name,
        f"{result.seconds:.2f}",
        _bar_cell(*seconds, 1, "s"),
        f"{result.cpu:.2f}",
        f"{result.peak / MIB:.0f}",
        _bar_cell(*peak, MIB, "MiB"),
    ]


def _bar_cell(limit: float | None, value: float, unit: int, word: str) -> str:
    return "" if limit is None else f"<= {limit / unit:g} {word} {'held' if value <= limit else 'MISSED'}"


def _seconds_cells(found: Mapping[str, float], names: Sequence[str]) -> list[str]:
    return [f"{found[name]:.2f}" if name in found else "" for name in names]


def _quality_cells(q: Quality) -> list[str]:
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


def terminal_tables(results: Results) -> str:
    return (
        "\n\n".join("\n".join([title, *aligned_lines(heads, rows)]) for title, heads, rows in result_tables(results))
        + "\n"
    )


def aligned_lines(heads: list[str], rows: list[list[str]]) -> list[str]:
    wide = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    return [
        "  ".join(cell.rjust(wide[i]) if i else cell.ljust(wide[i]) for i, cell in enumerate(row)).rstrip()
        for row in (heads, *rows)
    ]
