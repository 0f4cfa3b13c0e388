"""Small worlds whose outcome volcano-differences.md tells: what the real Volcano does, and what gangplan plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.beside import beside
from tests.differential.bed import Bed, Plan, held_amounts
from tests.differential.planned import compile_world
from tests.differential.world import JobData, QueueData, TaskData, World

MOST_LOOKS = 6


def gang(name: str, queue: str, pods: int, gpus: int, **more: int) -> JobData:
    """A gang of one role. more: minimum, priority, tier."""
    minimum = more.get("minimum")
    tasks = (TaskData("w", pods, {"gpu": gpus}, minimum),)
    return JobData(name, queue, tasks, more.get("priority", 0), minimum, tier=more.get("tier"))


def queue(name: str, deserved: int | None = None, **more: int) -> QueueData:
    """more: guarantee, capability, priority, weight."""
    said = {key: {"gpu": more[key]} if key in more else None for key in ("guarantee", "capability")}
    due = None if deserved is None else {"gpu": deserved}
    found = QueueData(name, None, more.get("weight", 1), more.get("priority", 0), due)
    return replace(found, guarantee=said["guarantee"], capability=said["capability"])


def world_of(gpus: int | list[int], queues: Mapping[str, Any], gangs: Mapping[str, Any], **more: Any) -> World:
    """One node, or one for each of several numbers of GPUs. gangs: the arguments of each, `number` of equal ones, and
    whether it `runs` at first, on the first node. more: fields of the world, and what is expected of it."""
    jobs: list[JobData] = []
    for name, said in gangs.items():
        about = {"number": 0, "runs": False, **said}
        number, runs = about.pop("number"), about.pop("runs")
        made = gang(name, **about)
        made = replace(made, running=(("w", "n0", about["pods"]),)) if runs else made
        jobs += [replace(made, name=f"{name}{at}") for at in range(number)] or [made]
    fields: dict[str, Any] = {key: more[key] for key in more.keys() - {"volcano", "planned"}}
    for key in fields.keys() & {"actions", "plugins"}:
        fields[key] = tuple(fields[key])
    nodes = tuple({"gpu": gpu} for gpu in (gpus if isinstance(gpus, list) else [gpus]))
    return World(nodes, tuple(queue(name, **said) for name, said in queues.items()), tuple(jobs), **fields)


FACTS = beside(__file__)
BIG_AND_SMALL = world_of(**FACTS["a share is kept for a gang that does not fit it"])


@pytest.mark.parametrize("name", FACTS)
def test_what_volcano_does(bed: Bed, name: str) -> None:
    """Looked at a few times at most: on a busy machine Volcano may act on what its caches have not heard of yet. Where
    it evicts below a guarantee, the queue may take the room back before the other's pod is bound, again and again:
    three of eight runs next to other work did not come to rest."""
    fact, world = FACTS[name], world_of(**FACTS[name])
    assert fact["volcano"] in (bed.run(world).held(world) for _ in range(MOST_LOOKS))


@pytest.mark.parametrize("name", FACTS)
def test_what_is_planned(name: str) -> None:
    fact, world = FACTS[name], world_of(**FACTS[name])
    assert held_amounts(world, compile_world(world).running) == fact.get("planned", fact["volcano"])


def test_the_shares_of_gated_gangs_are_kept_too(bed: Bed) -> None:
    """A plan that gave them away would never be bound: pods behind a gate count as asked for."""
    running = {(f"b{at}", "w", "n0"): 1 for at in range(6)}
    assert bed.run(BIG_AND_SMALL, Plan(running, {})).held(BIG_AND_SMALL) == {"a": 0, "b": 6}


def test_what_a_held_gang_does_not_ask_for_flows_on(bed: Bed) -> None:
    """The same, where the plan keeps the gang of 8 out of the cluster: its share goes on to b."""
    planned = compile_world(BIG_AND_SMALL, jobs_there=False)
    assert [planned.problem.gangs[d.gang].name for d in planned.plan.decisions if d.held] == ["default/a0"]
    there = replace(BIG_AND_SMALL, jobs=BIG_AND_SMALL.jobs[1:])
    assert held_amounts(there, planned.running) == {"a": 0, "b": 12}
    assert bed.run(there, Plan(planned.running, {})).held(there) == {"a": 0, "b": 12}


def test_a_node_with_too_little_cpu_for_its_pods_takes_none_that_asks_for_no_cpu(bed: Bed) -> None:
    """Volcano compares CPU and memory for each pod."""
    of_a = JobData("a0", "a", (TaskData("w", 1, {"cpu": 4, "gpu": 1}),), running=(("w", "n0", 1),))
    for cpu, running in ((3, {"a": 1, "b": 0}), (4, {"a": 1, "b": 1})):
        world = World(({"gpu": 8, "cpu": cpu},), (queue("a"), queue("b")), (of_a, gang("b0", "b", 1, 1)))
        assert held_amounts(world, compile_world(world).running) == running
        assert bed.run(world).held(world) == running


def test_a_gang_with_a_hard_topology_needs_room_for_all_its_pods(bed: Bed) -> None:
    """Above its minimum too, and behind a gate: Volcano would never start such a plan."""
    elastic = gang("a0", "a", 5, 1, minimum=2, tier=1)
    world = World(({"gpu": 2},) * 4, (queue("a", 8),), (elastic,), supernode_size=2)
    assert bed.run(world, Plan({("a0", "w", "n0"): 2}, {})).held(world) == {"a": 0}
    assert bed.run(
        replace(world, jobs=(gang("a0", "a", 4, 1, minimum=2, tier=1),)), Plan({("a0", "w", "n0"): 2}, {})
    ).held(world) == {"a": 2}
