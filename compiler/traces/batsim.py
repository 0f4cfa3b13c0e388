"""Batsim's workloads: {"nb_res": machines, "jobs": [{id, subtime, res, walltime, profile}], "profiles": {name: {...}}}
(Batsim's documentation, Workload). Only profiles of type `delay` have a duration; others need its network model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from compiler.traces.numbers import seconds, whole
from compiler.traces.trace import Trace, TraceError, TraceJob


def read(document: Any) -> Trace:
    """Return the trace of a workload. Raises TraceError, with a line for each invalid job."""
    listed, profiles, machines = document.get("jobs"), document.get("profiles"), document.get("nb_res")
    if not isinstance(listed, list) or not isinstance(profiles, dict):
        raise TraceError("1: not a Batsim workload: `jobs` and `profiles` are required")
    jobs, left_out, problems = list[TraceJob](), Counter[str](), list[str]()
    if machines is not None and (type(machines) is not int or machines < 1):
        problems.append(f"1: invalid nb_res {machines!r}: not a number of machines")
    for number, job in enumerate(listed):
        try:
            profile = _profile(job, profiles)
            if profile.get("type") == "delay":
                jobs.append(_job(job, profile))
            else:
                left_out[f"profile of type {profile.get('type')}"] += 1
        except KeyError as error:
            problems.append(f"1: jobs[{number}]: missing {error}")
        except ValueError as error:
            problems.append(f"1: jobs[{number}]: {error}")
    if problems:
        raise TraceError("\n".join(problems))
    return Trace(sorted(jobs, key=lambda job: job.submit), left_out, machines)


def _profile(job: Any, profiles: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(job, dict):
        raise TraceError("not an object")
    found = profiles.get(name) if isinstance(name := job["profile"], str) else None
    if not isinstance(found, dict):
        raise TraceError(f"unknown profile {name!r}. Fix: add it to `profiles`")
    return found


def _job(job: Mapping[str, Any], profile: Mapping[str, Any]) -> TraceJob:
    delay, size = seconds(profile["delay"], "delay"), whole(job["res"], "res")
    if delay < 0 or size < 1:
        raise ValueError(f"invalid {f'delay {delay:g}' if delay < 0 else f'res {size}'}: too small")
    requested = seconds(job.get("walltime", -1), "walltime")
    limit = requested if requested > 0 else None
    return TraceJob(str(job["id"]), seconds(job["subtime"], "subtime"), delay, limit, size)
