"""The history of a repository as a trace: when each job's specification was committed, and how long its recorded runs
took.

A job is submitted when it appears, when it appears again, and when its document changes. While its file has an error it
stays what it was, as in the cluster. A recorded run belongs to the last submission before it; further ones of the same
submission are jobs that come when they started. How long a job runs of which no run is recorded:

    1. its expected duration (annotation), else
    2. the median of the recorded runs of its namespace, else
    3. the median of all recorded runs; without any the job is left out
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_high

from compiler.cluster_state.run_records import RecordedRun
from compiler.lower.inputs import class_priorities
from compiler.run_kinds import runs_once
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec, JobKey
from compiler.traces.trace import Trace, TraceError, TraceJob


@dataclass(frozen=True, slots=True)
class _Submission:
    gang: GangSpec
    priority: int
    at: int


def history_trace(versions: Iterable[tuple[int, Specs]], runs: Mapping[JobKey, Sequence[RecordedRun]]) -> Trace:
    """Return the trace. versions: the repository at each commit, with the commit's time, the oldest first. Raises
    TraceError without a job whose run time is known."""
    submissions, services = _submissions(versions)
    model, used, found = _RunTimes(runs), Counter[str](), list[TraceJob]()
    for key, of_job in submissions.items():
        found += _jobs(of_job, sorted(runs.get(key, ()), key=lambda run: run.started), model, used)
    left_out = {"run time unknown": used.pop("", 0), "service": services}
    if not found:
        raise TraceError("no job of the history has a known run time. Fix: pass --records, or annotate jobs")
    jobs = sorted(found, key=lambda job: (job.submit, job.id))
    text = ", ".join(f"{source}: {number}" for source, number in sorted(used.items()))
    notes = (f"Jobs are submitted by commits. Run times by source: {text}.",)
    return Trace(jobs, {why: n for why, n in left_out.items() if n}, origin=jobs[0].submit, notes=notes)


def _submissions(versions: Iterable[tuple[int, Specs]]) -> tuple[Mapping[JobKey, Sequence[_Submission]], int]:
    """Return the submissions of each job, and how many gangs were left out as services."""
    found: dict[JobKey, list[_Submission]] = {}
    present: Mapping[JobKey, GangSpec] = {}
    services, now = set[JobKey](), 0
    for at, specs in versions:
        now = max(now, at)  # clocks of committers differ
        values, default = class_priorities(specs.priority_classes)
        broken = {each.position.file for each in specs.diagnostics if each.severity == "error"}
        kept = {key: gang for key, gang in present.items() if gang.document.file in broken}
        before, present = present, {**kept, **{gang.key: gang for gang in specs.gangs}}
        for key, gang in present.items():
            if not runs_once(gang.document.data):
                services.add(key)
            elif key not in before or before[key].document.data != gang.document.data:
                priority = default if gang.priority_class is None else values.get(gang.priority_class, default)
                found.setdefault(key, []).append(_Submission(gang, priority, now))
    return found, len(services)


class _RunTimes:
    """The model of run times of jobs without a record."""

    def __init__(self, runs: Mapping[JobKey, Sequence[RecordedRun]]) -> None:
        lengths, of_all = dict[str, list[int]](), list[int]()
        for (namespace, _, _), of_job in runs.items():
            of_all += (found := [run.ended - run.started for run in of_job])
            lengths.setdefault(namespace, []).extend(found)
        self._of_all = median_high(of_all) if of_all else None
        self._by_namespace = {namespace: median_high(own) for namespace, own in lengths.items() if own}

    def of(self, gang: GangSpec) -> tuple[int | None, str]:
        """(seconds, where they are from); (None, "") where nothing is known."""
        if gang.times.expected_duration is not None:
            return gang.times.expected_duration, "expected duration"
        if (own := self._by_namespace.get(gang.namespace)) is not None:
            return own, "median of the namespace"
        return self._of_all, "" if self._of_all is None else "median of all runs"


def _jobs(
    submissions: Sequence[_Submission], runs: Sequence[RecordedRun], model: _RunTimes, used: Counter[str]
) -> Iterable[TraceJob]:
    """Yield the jobs of one key's submissions. used: counts sources of run times."""
    for number, submission in enumerate(submissions):
        end = submissions[number + 1].at if number + 1 < len(submissions) else float("inf")
        begin = submission.at if number else -float("inf")
        own = [run for run in runs if begin <= run.started < end]
        modelled, source = (None, "recorded runs") if own else model.of(submission.gang)
        lengths = [run.ended - run.started for run in own] or ([] if modelled is None else [modelled])
        used[source] += max(1, len(lengths))
        for at, length in enumerate(lengths):
            submitted = own[at].started if at else submission.at
            yield _trace_job(submission, f"{number + 1}.{at + 1}" if at else str(number + 1), submitted, length)


def _trace_job(submission: _Submission, number: str, submitted: int, length: int) -> TraceJob:
    """One run. number: of the submission, and of the run where it is not the first."""
    gang, totals = submission.gang, submission.gang.requests
    expected = gang.times.expected_duration
    namespace, name, kind = gang.key
    return TraceJob(
        f"{kind} {namespace}/{name} {number}",
        float(submitted),
        float(length),
        None if expected is None else float(max(expected, length)),
        gang.devices,
        cpu=totals["cpu"],
        memory=totals["memory"],
        queue=gang.queue,
        user=namespace,
        priority=submission.priority,
    )
