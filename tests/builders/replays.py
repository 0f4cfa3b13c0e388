"""Replays as data: a workload, the policies that replay it, and what becomes of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from solver.problem import Policy, Queue
from solver.simulation.workload import SECOND, Plugin, VolcanoScheduler, Workload
from tests.builders.simulations import POLICIES, job, machines, replay, workload


def assert_replay(told: Mapping[str, Any] | list[Mapping[str, Any]]) -> None:
    """told: one case, or several that belong together."""
    for case in told if isinstance(told, list) else [told]:
        _assert_case(**case)


def _assert_case(by: list[str] | str, **described: Any) -> None:
    """by: the policies, or "all" that decide at once. starts: job -> second, null for never. restarted: jobs that lost
    what they had done. The rest is the workload."""
    expected = {key: described.pop(key) for key in ("starts", "restarted") if key in described}
    assert expected
    world = workload_of(**described)
    policies = POLICIES if by == "all" else by
    found = {policy: _found(world, policy) for policy in policies}
    assert {name: {key: each[key] for key in expected} for name, each in found.items()} == dict.fromkeys(
        policies, expected
    )


def _found(world: Workload, policy: str) -> dict[str, Any]:
    runs = dict(zip((each.name for each in world.jobs), replay(policy, world).runs, strict=True))
    return {
        "starts": {name: None if run.start is None else run.start // SECOND for name, run in runs.items()},
        "restarted": [name for name, run in runs.items() if run.restarts],
    }


def workload_of(
    *,
    nodes: int,
    jobs: Mapping[str, Mapping[str, Any]],
    gpus: int = 1,
    queues: Mapping[str, Mapping[str, Any]] | None = None,
    policy: Mapping[str, Any] | None = None,
    scheduler: Mapping[str, Any] | None = None,
    **more: Any,
) -> Workload:
    """nodes: of so many GPUs each. jobs: name -> arguments of `job`. queues: name -> fields, limits in GPUs. scheduler:
    Volcano's actions, tiers of plugins, and its period and cycles in seconds."""
    cluster = replace(machines(nodes, gpus), policy=Policy(**(policy or {})))
    if queues:
        cluster = replace(cluster, queues=tuple(_queue(name, **said) for name, said in queues.items()))
    world = workload(cluster, *(job(name, **said) for name, said in jobs.items()), **more)
    return replace(world, scheduler=_scheduler(**scheduler)) if scheduler else world


def _queue(name: str, **said: Any) -> Queue:
    limits: dict[str, Any] = {key: (said.pop(key, None),) for key in ("guarantee", "deserved", "capability")}
    fields: dict[str, Any] = {"parent": None, "weight": 1, "priority": 0, **said}
    return Queue(name, used=(0,), **limits, **fields)


def _scheduler(
    *, actions: list[str], tiers: list[list[Any]], period: int | None = None, **more: Any
) -> VolcanoScheduler:
    plugins = [[Plugin(each) if isinstance(each, str) else Plugin(**each) for each in tier] for tier in tiers]
    times: dict[str, Any] = {"period": period * SECOND} if period else {}
    if "cycles" in more:
        times["cycles"] = tuple(at * SECOND for at in more["cycles"])
    return VolcanoScheduler(tuple(actions), tuple(map(tuple, plugins)), **times)
