"""Finished runs, as known run times of the problem's gangs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from compiler.cluster_state.run_records import recorded_runs
from compiler.lower.inputs import LoweringInputs
from compiler.run_kinds import runs_once
from compiler.specs.gang_spec import GangSpec
from solver.forecast.past_runs import PastRuns
from solver.forecast.run_times import RunHistory
from solver.forecast.scores import Outcome, promise_score
from solver.forecast.windows import Correction

_MINUTE = 60


def past_runs(inputs: LoweringInputs) -> PastRuns | None:
    """None without a record. A job that left the repository counts for its namespace and for all."""
    recorded = recorded_runs(inputs.run_records)
    if not recorded:
        return None
    observed, gangs = inputs.observed, {gang.key: gang for gang in inputs.specs.gangs}
    history, correction = RunHistory(), Correction(_MINUTE)
    for key, run in recorded:
        of_job = (*_classes(gangs[key]),) if key in gangs else (("namespace", key[0]), "all")
        history.add(of_job, run.ended - run.started)
    outcomes = list[Outcome]()
    for _, run in sorted(recorded, key=lambda each: (each[1].started, each[0])):
        if (promise := run.promise) is not None:
            outcomes.append(promise.outcome(run.started, run.submitted))
            correction.add(max(0, promise.raw - promise.made), outcomes[-1].wait)
    ages = {}
    for g, j in enumerate(inputs.gang_indices):
        if (start := observed.started_at(j)) is not None and observed.now is not None:
            ages[g] = max(0, observed.now - start)
    classes = [(*_classes(gang),) if runs_once(gang.document.data) else () for gang in inputs.gangs]
    return PastRuns(history, correction, classes, ages, promise_score(outcomes))


def _classes(gang: GangSpec) -> Iterator[Hashable]:
    """Whom its run times are like: jobs of its namespace that declare the same or are as large, of its queue, all."""
    if gang.times.expected_duration is not None:
        yield "declared", gang.namespace, gang.times.expected_duration
    yield "namespace and size", gang.namespace, gang.devices
    yield "queue and size", gang.queue, gang.devices
    yield "namespace", gang.namespace
    yield "queue", gang.queue
    yield "all"
