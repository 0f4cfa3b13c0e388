"""Replays of a workload, for people, for machines, and as a page with curves over time (`gangplan simulate --page`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any

from compiler.diagnostics.render.words import printable
from compiler.fields.texts import count_text
from compiler.views.report.page import replay_page
from compiler.views.style import Style
from solver.forecast import SHARE as STATED
from solver.forecast import PromiseScore
from solver.simulation.contrast import CERTAIN, DRAWS, SHARE, UNCERTAIN, Contrast, Trial
from solver.simulation.measures import (
    Edges,
    Floats,
    QueueShare,
    ShareCurves,
    Usage,
    Waits,
    curves,
    edges_of,
    queue_share,
    share_curves,
    share_error,
    size_class,
    usage,
    waits,
    waits_by,
)
from solver.simulation.pieces import joined
from solver.simulation.replay import Replay
from solver.simulation.workload import SECOND, Workload

MARKDOWN_LIMIT = 4_000
"""Characters of a text in a comment, which holds a comparison too."""

PARTS = 100
"""Points of a curve in JSON."""

KIND = {"apiVersion": "gangplan.dev/v1alpha1", "kind": "Simulation"}


@dataclass(frozen=True, slots=True)
class SimulationView:
    """replays: policy -> its replay of one workload. assumptions: what the answer rests on, a sentence each. promises:
    policy -> how promised starts held, None where none was made; empty where that is not asked for."""

    workload: Workload
    replays: Mapping[str, Replay]
    assumptions: Sequence[str]
    promises: Mapping[str, PromiseScore | None] = field(default_factory=dict)


def simulation_document(view: SimulationView) -> dict[str, Any]:
    """One policy: its replay; several: a list of such. Times in seconds since the trace's origin."""
    edges = edges_of(view.replays.values(), PARTS)
    found = [
        {
            **KIND,
            "policy": policy,
            "assumptions": [*view.assumptions],
            **replay_data(replay, edges),
            **({"promises": _promise_data(view.promises[policy])} if policy in view.promises else {}),
            "jobs": [_job_data(view.workload, replay, j) for j in range(len(replay.runs))],
        }
        for policy, replay in view.replays.items()
    ]
    return found[0] if len(found) == 1 else {**KIND, "kind": "SimulationList", "items": found}


def _groupings(workload: Workload) -> Mapping[str, Callable[[int], str]]:
    """Return grouping -> the group of a job."""
    queues = [queue.name for queue in workload.cluster.queues]
    return {
        "queue": lambda j: queues[workload.jobs[j].queue],
        "devices": lambda j: size_class(workload.devices(j) // workload.unit),
        "priority": lambda j: str(workload.jobs[j].priority),
    }


def replay_data(replay: Replay, edges: Edges) -> dict[str, Any]:
    """Return a replay without its jobs. edges: between which moments the curves have their means."""
    workload = replay.workload
    used, ways, shares = usage(replay), _groupings(workload), share_curves(replay)
    of_queues = _queue_shares(workload, shares)
    return {
        "complete": replay.is_complete,
        "devices": workload.cluster.totals[workload.device] / workload.unit,
        "usage": {
            "utilisation": round(used.utilisation, 6),
            "peak": round(used.peak, 6),
            "stranded": round(used.stranded / workload.unit, 6),
            "spread": None if used.spread is None else round(used.spread, 6),
            "restarts": used.restarts,
            "lostDeviceHours": round(_lost_hours(workload, used), 6),
            "shareError": round(share_error(shares), 6),
            "seconds": used.span / SECOND,
        },
        "waits": {
            "all": _waits_data(waits(replay, range(len(replay.runs)))),
            "byQueue": _groups(waits_by(replay, ways["queue"])),
            "bySize": _groups(waits_by(replay, ways["devices"])),
            "byPriority": _groups(waits_by(replay, ways["priority"])),
        },
        "shares": {name: _share_data(share) for name, share in of_queues.items()},
        "curves": _curve_data(replay, shares, edges, of_queues),
    }


def _curve_data(replay: Replay, shares: ShareCurves, edges: Edges, queues: Iterable[str]) -> dict[str, Any]:
    """Return the curves; of the named queues only. seconds: the middle of each part of the time."""
    found = curves(replay, shares, edges)
    index = {queue.name: q for q, queue in enumerate(replay.workload.cluster.queues)}
    devices = replay.workload.cluster.totals[replay.workload.device] / replay.workload.unit
    return {
        "seconds": _rounded((edges[1:] + edges[:-1]) / 2 / SECOND),
        "utilisation": _rounded(found.used),
        "stranded": _rounded(found.stranded * devices),
        "waiting": _rounded(found.waiting * devices),
        "shareError": _rounded(found.lacking),
        "queues": {
            name: {"deserved": _rounded(found.deserved[:, index[name]]), "held": _rounded(found.held[:, index[name]])}
            for name in queues
        },
    }


def _rounded(values: Floats) -> list[float]:
    return [round(value, 4) + 0.0 for value in values.tolist()]


def _lost_hours(workload: Workload, used: Usage) -> float:
    return used.lost / workload.unit / SECOND / 3600


def _queue_shares(workload: Workload, curves: ShareCurves) -> Mapping[str, QueueShare]:
    """Return the queues that ever asked for devices."""
    found = {queue.name: queue_share(curves, q) for q, queue in enumerate(workload.cluster.queues)}
    return {name: share for name, share in found.items() if share.asking}


def _share_data(share: QueueShare) -> dict[str, Any]:
    parts = {name: round(getattr(share, name), 6) for name in ("deserved", "held", "error")}
    return {**parts, "starved": share.starved / SECOND, "asking": share.asking / SECOND}


def _promise_data(score: PromiseScore | None) -> dict[str, Any] | None:
    if score is None:
        return None
    return {
        "stated": STATED / 100,
        "made": score.made,
        "estimates": score.estimates,
        "inside": round(score.inside, 6),
        "width": round(score.width, 6),
        "error": score.error / SECOND,
        "errorByLimits": None if score.limits_error is None else score.limits_error / SECOND,
    }


def _groups(found: Mapping[str, Waits]) -> dict[str, Any]:
    return {name.strip(): _waits_data(of_group) for name, of_group in found.items()}


def _waits_data(found: Waits) -> dict[str, Any]:
    times = {name: getattr(found, name) for name in ("mean", "p50", "p95", "p99", "longest")}
    return {
        "jobs": found.jobs,
        "started": found.started,
        **{name: None if value is None else round(value / SECOND, 6) for name, value in times.items()},
        "slowdown": None if found.slowdown is None else round(found.slowdown, 6),
    }


def _job_data(workload: Workload, replay: Replay, j: int) -> dict[str, Any]:
    job, run = workload.jobs[j], replay.runs[j]
    return {
        "id": job.name,
        "queue": workload.cluster.queues[job.queue].name,
        "submit": job.submit / SECOND,
        "start": None if run.start is None else run.start / SECOND,
        "finish": None if run.finish is None else run.finish / SECOND,
        "nodes": [workload.cluster.nodes[hold.node].name for hold in run.holds],
        "restarts": run.restarts,
    }


@dataclass(frozen=True)
class ContrastView:
    """trial: the replays of one trace on the clusters of two revisions, `base` and `head`. budget: how many jobs of a
    side were to be replayed at most. jobs: of the trace."""

    base: str
    head: str
    policy: str
    trial: Trial
    budget: int
    jobs: int
    assumptions: Sequence[str]

    @cached_property
    def groups(self) -> Mapping[str, Mapping[str, Contrast]]:
        """By what -> group -> its contrast. Queues and sizes are those of `after`."""
        ways = _groupings(joined(self.trial.after).workload)
        chosen = {"all": lambda j: "all jobs", "queue": ways["queue"], "devices": ways["devices"]}
        return {name: self.trial.contrasts(way) for name, way in chosen.items()}

    @property
    def basis(self) -> str:
        """Return the basis of the verdict on all jobs."""
        if not self.trial.is_complete:
            return "interrupted"
        if self.trial.is_whole:
            return "whole trace"
        is_certain = self.groups["all"]["all jobs"].verdict != UNCERTAIN
        return "certain from windows" if is_certain else "not certain within the budget"

    @property
    def notes(self) -> Sequence[str]:
        """Return the assumptions of the comparison, a sentence each."""
        if not self.trial.is_complete:
            return ["The replay was interrupted: results cover the time until then.", *self.assumptions]
        if self.trial.is_whole:
            return ["The whole trace was replayed: the differences are exact.", *self.assumptions]
        trial, carried = self.trial, sum(piece.carried for piece in self.trial.after)
        number = sum(len(piece.replay.runs) for piece in trial.after) - carried
        windows = f"{count_text(len(trial.after), 'window')} of the trace: {number} of {self.jobs} jobs"
        return [
            f"{windows}, and {carried} that run or wait at the beginning (seed {trial.seed}).",
            "The more jobs wait, the likelier a window is drawn, and the less it counts.",
            f"The order of all jobs is {self.basis} of {self.budget} jobs; --jobs {self.jobs} replays the whole trace.",
            *self.assumptions,
        ]


def contrast_document(view: ContrastView) -> dict[str, Any]:
    """Seconds; `low` and `high` bound the difference of the 95th percentiles in 90 % of the draws of windows."""
    groups = view.groups
    return {
        **KIND,
        "kind": "SimulationComparison",
        "base": view.base,
        "head": view.head,
        "policy": view.policy,
        "basis": view.basis,
        "assumptions": [*view.notes],
        "all": _contrast_data(groups["all"]["all jobs"]),
        "byQueue": {name: _contrast_data(found) for name, found in groups["queue"].items()},
        "bySize": {name.strip(): _contrast_data(found) for name, found in groups["devices"].items()},
    }


def _contrast_data(found: Contrast) -> dict[str, Any]:
    times = {name: getattr(found, name) / SECOND for name in ("before", "after", "low", "high")}
    return {"jobs": found.jobs, **times, "waits": found.verdict}


# ---- for people


def contrast_text(view: ContrastView, style: Style) -> str:
    """Return the changed waits, by queue and by size, after the queues that are better off and those that pay."""
    groups = view.groups
    lines = [
        f"{count_text(view.jobs, 'job')}, policy {view.policy}, on the cluster of",
        f"  before: {printable(view.base)}",
        f"  after:  {printable(view.head)}",
        *(f"  {note}" for note in view.notes),
        f"  {_interval_note(view)}",
        "",
    ]
    nobody = "no queue" if view.trial.is_whole else "no queue for certain"
    for verdict, title in (("shorter", "Better off"), ("longer", "Pays")):
        names = [printable(name) for name, found in groups["queue"].items() if found.verdict == verdict]
        lines.append(f"{style.paint(title, 'head')}: {', '.join(names) or nobody}")
    for way, found in groups.items():
        rows = [
            (
                printable(name.strip()),
                str(of_group.jobs),
                _time_text(of_group.before),
                _time_text(of_group.after),
                _interval_text(of_group),
                of_group.verdict,
            )
            for name, of_group in found.items()
        ]
        lines += ["", *_table((way, "jobs", "before", "after", "difference", "waits"), rows, style)]
    return "\n".join(lines) + "\n"


def _interval_note(view: ContrastView) -> str:
    note = f"{SHARE}th percentile of waits"
    if view.trial.is_whole:
        return f"{note}."
    return f"{note}; the interval holds {CERTAIN} % of {DRAWS} draws of windows of the trace."


def _interval_text(found: Contrast) -> str:
    if found.is_known:
        return _difference_text(found.low)
    return f"{_difference_text(found.low)} to {_difference_text(found.high)}"


def _difference_text(microseconds: int) -> str:
    return f"{'-' if microseconds < 0 else '+'}{_time_text(abs(microseconds))}"


def simulation_text(view: SimulationView, style: Style) -> str:
    """Return a table of the policies, then one of each group of jobs."""
    return "\n".join(_lines(view, style)) + "\n"


def text_as_markdown(title: str, text: str) -> str:
    """Return a text of a replay for a comment: its beginning open, and its tables by groups folded."""
    if len(text) > MARKDOWN_LIMIT:
        text = f"{text[:MARKDOWN_LIMIT].rpartition(chr(10))[0]}\n..."
    head, result, *tables = (escape(part.rstrip()) for part in text.split("\n\n"))
    folded = "\n\n".join(tables)
    more = f"<details><summary>By group</summary>\n\n<pre>\n{folded}\n</pre>\n</details>\n" if tables else ""
    return f"### {escape(printable(title))}\n\n<pre>\n{head}\n\n{result}\n</pre>\n{more}"


def size_text(workload: Workload) -> str:
    """Return how many jobs, devices and nodes there are."""
    devices = workload.cluster.totals[workload.device] // workload.unit
    name = printable(workload.cluster.resources[workload.device])
    nodes = count_text(len(workload.cluster.nodes), "node")
    return f"{count_text(len(workload.jobs), 'job')} on {devices} x {name}, {nodes}"


def _lines(view: SimulationView, style: Style) -> Iterator[str]:
    workload = view.workload
    yield size_text(workload)
    for assumption in view.assumptions:
        yield f"  {assumption}"
    yield ""
    heads = ("policy", "started", "mean wait", "p50", "p95", "p99", "longest", "slowdown", "used", "peak", "stranded")
    rows = []
    for policy, replay in view.replays.items():
        used = usage(replay)
        rows.append(
            (
                policy,
                *_wait_cells(waits(replay, range(len(replay.runs)))),
                f"{used.utilisation:.1%}",
                f"{used.peak:.2%}",
                f"{used.stranded / workload.unit:.1f}",
            )
        )
    yield from _table(heads, rows, style)
    yield from _use_lines(view, style)
    yield from _promise_lines(view, style)
    for title, group_of in _groupings(workload).items():
        groups = {policy: waits_by(replay, group_of) for policy, replay in view.replays.items()}
        if len(next(iter(groups.values()))) < 2:
            continue
        yield ""
        rows = [
            (printable(group.strip()), policy, *_wait_cells(of_policy[group]))
            for group in next(iter(groups.values()))
            for policy, of_policy in groups.items()
        ]
        yield from _table((title, *heads[:8]), rows, style)
    if not all(replay.is_complete for replay in view.replays.values()):
        yield ""
        yield "The replay was interrupted: results cover the time until then."


def _use_lines(view: SimulationView, style: Style) -> Iterator[str]:
    """Yield tables of losses and of the queues' shares of the devices."""
    workload, totals, rows = view.workload, list[tuple[str, ...]](), dict[str, list[tuple[str, ...]]]()
    for policy, replay in view.replays.items():
        used, curves = usage(replay), share_curves(replay)
        shares = _queue_shares(workload, curves)
        starved = max((share.starved for share in shares.values()), default=0)
        spread = "-" if used.spread is None else f"{used.spread:.2f}"
        lost = f"{_lost_hours(workload, used):.1f}"
        totals.append((policy, spread, str(used.restarts), lost, f"{share_error(curves):.1%}", _time_text(starved)))
        for queue, share in shares.items():
            parts = (f"{part:.1%}" for part in (share.deserved, share.held, share.error))
            rows.setdefault(queue, []).append((printable(queue), policy, *parts, _time_text(share.starved)))
    yield ""
    yield from _table(("policy", "spread", "restarts", "lost hours", "share error", "starved"), totals, style)
    if len(rows) > 1:
        yield ""
        of_queues = [row for queue in sorted(rows) for row in rows[queue]]
        yield from _table(("queue", "policy", "deserved", "held", "share error", "starved"), of_queues, style)


def _promise_lines(view: SimulationView, style: Style) -> Iterator[str]:
    """A table of promised against real starts, where it is asked for."""
    rows = []
    for policy, score in view.promises.items():
        cells = ("0", "-", "-", "-", "-", "-")
        if score is not None:
            times = (_time_text(score.error), _time_text(score.limits_error))
            cells = (str(score.made), str(score.estimates), f"{score.inside:.1%}", f"{score.width:.0%}", *times)
        rows.append((policy, *cells))
    if rows:
        inside = f"inside ({STATED} % stated)"
        heads = ("policy", "promised starts", "first estimates", inside, "width", "error", "error by limits")
        yield ""
        yield from _table(heads, rows, style)


def _wait_cells(found: Waits) -> tuple[str, ...]:
    slowdown = "-" if found.slowdown is None else f"{found.slowdown:.1f}"
    times = (found.mean, found.p50, found.p95, found.p99, found.longest)
    return (f"{found.started} of {found.jobs}", *map(_time_text, times), slowdown)


def _time_text(microseconds: float | None) -> str:
    """Return the time in common units: 42 s, 3.5 min, 2.1 h, 4.0 d."""
    if microseconds is None:
        return "-"
    seconds = microseconds / SECOND
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == 0 else f"{seconds:.1f} s"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], style: Style) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    left = {"all", "policy", "queue", "devices", "priority", "waits"}
    for line in (heads, *rows):
        cells = (
            cell.ljust(width) if head in left else cell.rjust(width)
            for head, cell, width in zip(heads, line, widths, strict=True)
        )
        text = "  ".join(cells).rstrip()
        yield style.paint(text, "head") if line is heads else text


POINTS = 300
"""Points of a curve on the page."""


def simulation_page(view: SimulationView, trace: str) -> str:
    """Return the page of policies side by side. trace: what the trace is called."""
    return replay_page(page_document(f"Replay of {trace}", view.replays, view.assumptions))


def comparison_page(view: ContrastView, trace: str) -> str:
    """Return the page of two revisions: their curves, and whose waits change."""
    document = page_document(
        f"Replay of {trace} under two revisions",
        {f"before: {view.base}": joined(view.trial.before), f"after: {view.head}": joined(view.trial.after)},
        [f"The policy is {view.policy}.", *view.notes],
    )
    return replay_page({**document, "comparison": contrast_document(view)})


def page_document(title: str, replays: Mapping[str, Replay], assumptions: Sequence[str]) -> dict[str, Any]:
    """replays: what each is called, and its entry of `simulate -o json` without jobs and with more points."""
    edges = edges_of(replays.values(), POINTS)
    return {
        **KIND,
        "kind": "SimulationPage",
        "title": title,
        "assumptions": [*assumptions],
        "replays": [
            {"name": name, "size": size_text(replay.workload), **replay_data(replay, edges)}
            for name, replay in replays.items()
        ],
    }
