"""The Standard Workload Format, version 2 (Feitelson, Parallel Workloads Archive): a header of comments, then 18
numbers a line, -1 for unknown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from compiler.traces.numbers import seconds, whole
from compiler.traces.trace import Trace, TraceError, TraceJob

FIELDS = 18
NUMBER, SUBMIT, RUN_TIME, ALLOCATED, ASKED, REQUESTED, USER, QUEUE = 0, 1, 3, 4, 7, 8, 11, 14
_MACHINES = re.compile(r";\s*(MaxProcs|MaxNodes):\s*(\d[\d,]*)")
_QUEUE = re.compile(r";\s*Queue:\s*(\d+)\s+(\S+)")


def is_job(line: str) -> bool:
    """Return whether a line has the 18 numbers of the format."""
    words = line.split()
    return len(words) == FIELDS and all(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", word, re.I) for word in words)


def read(text: str) -> Trace:
    """Return the trace of a file's text. Raises TraceError, with a line for each invalid one."""
    machines, queues = dict[str, int](), dict[str, str]()
    jobs, left_out, problems = list[TraceJob](), Counter[str](), list[str]()
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if line.startswith(";"):
            if found := _MACHINES.match(line):
                machines[found[1]] = int(found[2].replace(",", ""))
            elif found := _QUEUE.match(line):
                queues[found[1]] = found[2]
            continue
        if not line:
            continue
        try:
            found_job = _job(line, queues)
        except ValueError as error:
            problems.append(f"{number}: {error}")
            continue
        if isinstance(found_job, str):
            left_out[found_job] += 1
        else:
            jobs.append(found_job)
    if problems:
        raise TraceError("\n".join(problems))
    count = machines.get("MaxProcs") or machines.get("MaxNodes")
    return Trace(sorted(jobs, key=lambda job: job.submit), left_out, count or None)


def _job(line: str, queues: Mapping[str, str]) -> TraceJob | str:
    """Return the job of a line, or why it is left out. Raises ValueError for a line that is invalid."""
    words = line.split()
    if not is_job(line):
        raise ValueError(
            f"expected {FIELDS} numbers of the Standard Workload Format, found {len(words)} fields: {line[:80]}"
        )
    size = next((whole(words[at], "processors") for at in (ASKED, ALLOCATED) if float(words[at]) > 0), 0)
    submit, duration, requested = (seconds(words[at], "time") for at in (SUBMIT, RUN_TIME, REQUESTED))
    if submit < 0:
        return "no submission time"
    if duration <= 0 or size <= 0:
        return "no run time" if duration <= 0 else "no processors"
    return TraceJob(
        words[NUMBER],
        submit,
        duration,
        requested if requested > 0 else None,
        size,
        queue=queues.get(words[QUEUE], "" if words[QUEUE] == "-1" else words[QUEUE]),
        user=words[USER],
    )
