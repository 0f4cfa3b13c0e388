"""The Standard Workload Format, version 2 (Feitelson, Parallel Workloads Archive): a header of comments, then 18
numbers a line, -1 for what is not known."""

from __future__ import annotations

import re
from collections import Counter

from compiler.traces.trace import Trace, TraceError, TraceJob

FIELDS = 18
NUMBER, SUBMIT, RUN_TIME, ALLOCATED, ASKED, REQUESTED, USER, QUEUE = 0, 1, 3, 4, 7, 8, 11, 14
_MACHINES = re.compile(r";\s*(MaxProcs|MaxNodes):\s*(\d+)")
_QUEUE = re.compile(r";\s*Queue:\s*(\d+)\s+(\S+)")


def is_number(word: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(\.\d*)?", word))


def read(text: str) -> Trace:
    """Return the trace of a file's text. Raises TraceError, with a line for each invalid one."""
    machines, queues = dict[str, int](), dict[str, str]()
    jobs, left_out, problems = list[TraceJob](), Counter[str](), list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(";"):
            if found := _MACHINES.match(line):
                machines[found[1]] = int(found[2])
            elif found := _QUEUE.match(line):
                queues[found[1]] = found[2]
            continue
        words = line.split()
        if not words:
            continue
        if len(words) != FIELDS or not all(is_number(word) for word in words):
            problems.append(
                f"{number}: expected {FIELDS} numbers of the Standard Workload Format, found {len(words)} fields"
            )
            continue
        size = next((int(float(words[at])) for at in (ASKED, ALLOCATED) if float(words[at]) > 0), 0)
        duration, requested = float(words[RUN_TIME]), float(words[REQUESTED])
        if duration <= 0 or size <= 0:
            left_out["no run time" if duration <= 0 else "no processors"] += 1
            continue
        jobs.append(
            TraceJob(
                words[NUMBER],
                float(words[SUBMIT]),
                duration,
                requested if requested > 0 else None,
                size,
                queue=queues.get(words[QUEUE], "" if words[QUEUE] == "-1" else words[QUEUE]),
                user=words[USER],
            )
        )
    if problems:
        raise TraceError("\n".join(problems))
    count = machines.get("MaxProcs", machines.get("MaxNodes"))
    return Trace(sorted(jobs, key=lambda job: job.submit), left_out, count)
