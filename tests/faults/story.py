"""What happens between two rests: commits, and what people and machines do to the cluster."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.e2e.stories.story import QUEUES_PATH, VOLCANO_JOBS_PATH, job_pods
from tests.faults.nodes import GPUS, NAMES, NODES, WAYS
from tests.faults.witness import Cause
from tests.faults.world import CONFIGMAPS_PATH, DESERVED, JobSpec, World

MAX_GPUS = 28
"""Of 32, so that every gang finds room."""


def _running(world: World) -> list[str]:
    return sorted(name for name, job in world.declared.jobs.items() if not job.seconds)


def _over(world: World) -> list[str]:
    """Gangs that have ended once the world is at rest, and that nobody deletes."""
    return sorted(name for name, job in world.declared.jobs.items() if name.startswith("short-") and job.ttl is None)


def _next_name(world: World, prefix: str) -> str:
    numbers = [name for _, name in _all_names(world) if name.startswith(prefix)]
    return f"{prefix}{len(set(numbers))}"


def _all_names(world: World) -> set[tuple[str, str]]:
    named = {(plural, name) for commit in world.commits for plural, name in (key.split("/") for key in commit.declares)}
    return named | {("jobs", name) for name in world.declared.jobs}


def _has_room(world: World, job: JobSpec) -> bool:
    lasting = [each for each in world.declared.jobs.values() if not (each.takes_room and each.seconds)]
    return sum(each.pods * each.gpus for each in [*lasting, job]) <= MAX_GPUS


def _make_room(world: World, dice: random.Random) -> None:
    (remove_gang if len(_running(world)) > 1 else change_settings)(world, dice)


def meet_needs(world: World, action: str) -> None:
    """Declare what the action needs to do what its name says, whatever earlier stories left: a world is shared by tests
    in any order. Waits for rest if that was a change."""
    jobs = world.declared.jobs
    before = dict(jobs)
    if action in EVICTING:
        for name in [name for name in jobs if name.startswith("lasting-")]:
            del jobs[name]
        if not _running(world):
            jobs[_next_name(world, "long-")] = JobSpec(2, 2)
    if action == "run_again" and not _over(world):
        jobs[_next_name(world, "short-")] = JobSpec(2, 1, seconds=0.5)
    if jobs != before:
        world.witness.calm_since = float("inf")
        world.commit(f"what {action} needs")
        world.settle()


def add_gang(world: World, dice: random.Random) -> None:
    job = JobSpec(dice.choice((2, 3, 4)), dice.choice((1, 2)), in_one_domain=dice.random() < 0.5)
    if not _has_room(world, job):
        _make_room(world, dice)
        return
    world.declared.jobs[_next_name(world, "long-")] = job
    world.commit("add a gang")


def add_short_gang(world: World, dice: random.Random) -> None:
    job = JobSpec(2, 1, seconds=dice.choice((0.5, 1.0)), ttl=dice.choice((None, 0, 1)))
    if not _has_room(world, job):
        _make_room(world, dice)
        return
    world.declared.jobs[_next_name(world, "short-")] = job
    world.commit("add a gang that ends")


def remove_gang(world: World, dice: random.Random) -> None:
    if len(running := _running(world)) > 1:
        del world.declared.jobs[dice.choice(running)]
        world.commit("remove a gang")
    else:
        add_gang(world, dice)


def relabel_gangs(world: World, dice: random.Random) -> None:
    """Also those that are over: none of them may run again for it."""
    label = f"label-{len(world.commits)}"
    world.declared.jobs = {
        name: job if job.ttl is not None else replace(job, label=label) for name, job in world.declared.jobs.items()
    }
    world.commit("relabel all gangs")


def run_again(world: World, dice: random.Random) -> None:
    """Another specification of a gang that is over is a new run."""
    if not (over := _over(world)):
        add_short_gang(world, dice)
        return
    name = dice.choice(over)
    job = world.declared.jobs[name]
    world.declared.jobs[name] = replace(job, seconds=round(job.seconds + 0.1, 1))
    world.replaced_jobs.add(name)
    world.commit("run a gang with another specification")


def change_settings(world: World, dice: random.Random) -> None:
    """A queue, and a ConfigMap that comes, changes or goes."""
    world.declared.weights["team"] += 1
    if "more" in world.declared.modes and dice.random() < 0.5:
        del world.declared.modes["more"]
    else:
        world.declared.modes["more"] = f"mode-{len(world.commits)}"
    world.commit("change a queue and a ConfigMap")


def drift(world: World, dice: random.Random) -> None:
    """Somebody changes what is ours, by hand."""
    del dice
    world.plane.api("PATCH", f"{QUEUES_PATH}/team", {"spec": {"weight": 77}})
    if "settings" in world.declared.modes:
        world.plane.api("PATCH", f"{CONFIGMAPS_PATH}/settings", {"data": {"mode": "by hand"}})


def lose_pod(world: World, dice: random.Random) -> None:
    """A pod of a gang that runs goes; it is to come back at its place."""
    if not (running := _running(world)):
        add_gang(world, dice)
        return
    name = dice.choice(running)
    pod = dice.choice(sorted(pod["metadata"]["name"] for pod in job_pods(world.plane, name)) or [f"{name}-worker-0"])
    world.plane.api("DELETE", f"/api/v1/namespaces/default/pods/{pod}?gracePeriodSeconds=0")


def delete_gang(world: World, dice: random.Random) -> None:
    """Somebody deletes a gang that runs, by hand; it is to return. Not one with a time to live: where the reconciler
    does not see it go, that counts as finished (`reconciler.runs.part.record_unobserved_ends`)."""
    if not (running := [name for name in _running(world) if world.declared.jobs[name].ttl is None]):
        add_gang(world, dice)
        return
    name = dice.choice(running)
    if name in world.urgent_jobs:
        world.causes.append(Cause(time.monotonic()))  # others may start meanwhile
    world.returning_jobs.add(name)
    world.plane.api("DELETE", f"{VOLCANO_JOBS_PATH}/{name}")


# --- evictions


def _take_room(world: World, name: str, job: JobSpec) -> None:
    world.declared.jobs[name] = job
    world.urgent_jobs.add(name)
    world.causes.append(Cause(time.monotonic(), name, job.queue == "owner"))
    world.commit(f"{name} takes room from others")


def _nodes_to_clear(world: World) -> int:
    """So many whole nodes that one at least is to be cleared; 0 if all that could be cleared are held by what goes for
    none."""
    free = world.free_gpus()
    held = sum(job.pods for name, job in world.declared.jobs.items() if job.takes_room and not job.seconds)
    wanted = sum(gpus == GPUS for gpus in free.values()) + 1
    return wanted if wanted + held <= len(free) else 0


def urgent_gang(world: World, dice: random.Random) -> None:
    """It takes whole nodes from gangs that matter less, ends, and they come back."""
    if not (pods := _nodes_to_clear(world)):
        _make_room(world, dice)
        return
    job = JobSpec(pods, GPUS, seconds=dice.choice((0.5, 1.0, 3.0)), priority="urgent")
    _take_room(world, _next_name(world, "urgent-"), job)


def lasting_urgent_gang(world: World, dice: random.Random) -> None:
    """It takes room and stays: others wait from then on. If there is one already it goes, and they come back."""
    if lasting := [name for name in world.declared.jobs if name.startswith("lasting-")]:
        del world.declared.jobs[lasting[0]]
        world.commit("remove an urgent gang")
    elif pods := _nodes_to_clear(world):
        _take_room(world, _next_name(world, "lasting-"), JobSpec(pods, GPUS, priority="urgent"))
    else:
        _make_room(world, dice)


def fleeting_urgent_gang(world: World, dice: random.Random) -> None:
    """It leaves the repository while others leave their nodes for it."""
    if not (pods := _nodes_to_clear(world)):
        _make_room(world, dice)
        return
    name = _next_name(world, "fleeting-")
    _take_room(world, name, JobSpec(pods, GPUS, priority="urgent"))
    time.sleep(dice.uniform(0.0, 2.5))
    del world.declared.jobs[name]
    world.commit("and goes again")


def reclaiming_gang(world: World, dice: random.Random) -> None:
    """A queue takes back what it deserves, from one that has borrowed it."""
    pods, borrowed = _nodes_to_clear(world), NODES * GPUS - sum(world.free_gpus().values()) - DESERVED["team"]
    if world.nodes_out or borrowed <= 0 or not 0 < pods * GPUS <= DESERVED["owner"]:
        urgent_gang(world, dice)
        return
    job = JobSpec(pods, GPUS, seconds=dice.choice((0.5, 1.0, 3.0)), queue="owner")
    _take_room(world, _next_name(world, "owner-"), job)


def lose_node(world: World, dice: random.Random) -> None:
    """A node goes, and what ran there moves or waits. If one is out already it comes back."""
    if world.nodes_out:
        if any(job.takes_room and not job.seconds for job in world.declared.jobs.values()):
            world.causes.append(Cause(time.monotonic()))  # it may have waited for this node
        world.bring_back(min(world.nodes_out))
    else:
        world.take_out(dice.choice(NAMES), dice.choice(WAYS))


Action = Callable[[World, random.Random], None]
ACTIONS: Mapping[str, Action] = {
    action.__name__: action
    for action in (
        add_gang, add_short_gang, remove_gang, relabel_gangs, run_again, change_settings, drift, lose_pod, delete_gang,
        urgent_gang, lasting_urgent_gang, fleeting_urgent_gang, reclaiming_gang, lose_node,
    )
}  # fmt: skip
EVICTING = ("urgent_gang", "lasting_urgent_gang", "fleeting_urgent_gang", "reclaiming_gang", "lose_node")
"""Actions for which pods leave their nodes."""
