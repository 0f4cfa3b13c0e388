"""From when a plan counts, and when the answer may change although nothing happens.

What a plan says depends on time only through comparisons: has this maintenance ended, would a job of two hours end
before the next one, has that job waited too long? Each of them turns at one moment. Between two moments every time is
as good as another, so a clock is asked only which of them has come, and the moment, not the clock, goes into the
problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from compiler.lower.live import Live
from compiler.lower.origins import Moment
from compiler.lower.time import pods_run
from compiler.lower.victims import cools_until
from compiler.specs import Specs

MOST = 20_000
"""Pairs of an expected end and a duration that are looked at; beyond it a late backfill may move a reservation by as
long as nothing happened."""


def moments(specs: Specs, live: Live, chosen: Sequence[int], submitted: Mapping[int, int]) -> tuple[Moment, ...]:
    """All of them, past and to come, in order. chosen: the gangs of the problem. submitted: gang of the specs -> its
    age.

    A gang is late the second after its patience is over, and no earlier.
    """
    found = {Moment(end, "maintenance") for node in live.nodes for _, end in node.maintenance}
    for g, j in enumerate(chosen):
        spec, starts = specs.gangs[j], live.started.get(j)
        if starts and spec.expected_duration is not None:
            found.add(Moment(min(starts) + spec.expected_duration, "end", g))
        if j in submitted and j not in live.promised and pods_run(j, live) < max(1, spec.minimum):
            found.add(Moment(submitted[j] + specs.cluster.patience + 1, "patience", g))
        if (until := cools_until(j, spec, live, specs.scheduler)) is not None:
            found.add(Moment(until, "cooldown", g))
    found |= {
        Moment(at, "too late")
        for at in _too_late(specs, live, chosen, {moment.at for moment in found if moment.kind == "end"})
    }
    return tuple(sorted(found, key=lambda m: (m.at, m.kind, -1 if m.gang is None else m.gang)))


def _too_late(specs: Specs, live: Live, chosen: Sequence[int], ends: set[int]) -> Iterator[int]:
    """From when a job that starts does not end before maintenance begins any more, or before a reservation falls due,
    which it does at an end."""
    durations = {
        lasts for j in chosen if (lasts := specs.gangs[j].expected_duration) is not None and not pods_run(j, live)
    }
    begins = {start for node in live.nodes for start, _ in node.maintenance}
    for times in (begins, ends if len(ends) * len(durations) <= MOST else ()):
        yield from (at - lasts + 1 for at in times for lasts in durations)


def counted_from(live: Live, every: Sequence[Moment], submitted: Mapping[int, int], clock: int | None) -> int | None:
    """Now: the newest event or, where there is a clock, the last moment that has come by then, the newest job of the
    repository among them."""
    past = (
        [] if clock is None else [at for at in (*(moment.at for moment in every), *submitted.values()) if at <= clock]
    )
    return max([*past, *([] if live.latest is None else [live.latest])], default=None)


def ahead(every: Sequence[Moment], now: int | None, clock: int | None) -> tuple[Moment, ...]:
    """Those to come at which somebody who waits may start. None without a now."""
    if now is None:
        return ()
    return tuple(moment for moment in every if moment.at > max(now, clock or now) and moment.kind != "too late")
