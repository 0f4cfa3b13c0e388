"""Batsim's workloads: {"nb_res": machines, "jobs": [{id, subtime, res, walltime, profile}], "profiles": {name: {...}}}
(Batsim's documentation, Workload). Of profiles those of type `delay` have a duration; others need its network model."""

from __future__ import annotations

from collections import Counter
from typing import Any

from compiler.traces.trace import Trace, TraceError, TraceJob


def read(document: Any) -> Trace:
    """Return the trace of a workload. Raises TraceError, with a line for each invalid job."""
    listed, profiles = document.get("jobs"), document.get("profiles")
    if not isinstance(listed, list) or not isinstance(profiles, dict):
        raise TraceError("1: not a Batsim workload: `jobs` and `profiles` are required")
    jobs, left_out, problems = list[TraceJob](), Counter[str](), list[str]()
    for number, job in enumerate(listed):
        try:
            profile = profiles[job["profile"]]
            if profile.get("type") != "delay":
                left_out[f"profile of type {profile.get('type')}"] += 1
                continue
            requested = float(job.get("walltime", -1))
            submit, size = float(job["subtime"]), int(job["res"])
            limit = requested if requested > 0 else None
            jobs.append(TraceJob(str(job["id"]), submit, float(profile["delay"]), limit, size))
        except KeyError as error:
            problems.append(f"1: jobs[{number}]: missing {error}")
        except (TypeError, ValueError, AttributeError) as error:
            problems.append(f"1: jobs[{number}]: {error}")
    if problems:
        raise TraceError("\n".join(problems))
    machines = document.get("nb_res")
    return Trace(
        sorted(jobs, key=lambda job: job.submit), left_out, machines if isinstance(machines, int) and machines else None
    )
