"""What happens between two rests: commits, and what people and machines do to the cluster."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.e2e.stories.story import QUEUES_PATH, VOLCANO_JOBS_PATH, job_pods
from tests.faults.world import CONFIGMAPS_PATH, JobSpec, World

MAX_GPUS = 28
"""Of 32, so that every gang finds room."""


def _running(world: World) -> list[str]:
    return sorted(name for name, job in world.declared.jobs.items() if not job.seconds)


def _next_name(world: World, prefix: str) -> str:
    numbers = [name for _, name in _all_names(world) if name.startswith(prefix)]
    return f"{prefix}{len(set(numbers))}"


def _all_names(world: World) -> set[tuple[str, str]]:
    named = {(plural, name) for commit in world.commits for plural, name in (key.split("/") for key in commit.declares)}
    return named | {("jobs", name) for name in world.declared.jobs}


def _has_room(world: World, job: JobSpec) -> bool:
    return sum(each.pods * each.gpus for each in [*world.declared.jobs.values(), job]) <= MAX_GPUS


def add_gang(world: World, dice: random.Random) -> None:
    job = JobSpec(dice.choice((2, 3, 4)), dice.choice((1, 2)))
    if not _has_room(world, job):
        remove_gang(world, dice)
        return
    world.declared.jobs[_next_name(world, "long-")] = job
    world.commit("add a gang")


def add_short_gang(world: World, dice: random.Random) -> None:
    job = JobSpec(2, 1, seconds=dice.choice((0.5, 1.0)), ttl=dice.choice((None, 0, 1)))
    if not _has_room(world, job):
        remove_gang(world, dice)
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
    over = sorted(name for name, job in world.declared.jobs.items() if job.seconds and job.ttl is None)
    if not over:
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
    name = dice.choice(_running(world))
    pod = dice.choice(sorted(pod["metadata"]["name"] for pod in job_pods(world.plane, name)))
    world.plane.api("DELETE", f"/api/v1/namespaces/default/pods/{pod}?gracePeriodSeconds=0")


def delete_gang(world: World, dice: random.Random) -> None:
    """Somebody deletes a gang that runs, by hand; it is to return."""
    name = dice.choice(_running(world))
    world.returning_jobs.add(name)
    world.plane.api("DELETE", f"{VOLCANO_JOBS_PATH}/{name}")


Action = Callable[[World, random.Random], None]
ACTIONS: Mapping[str, Action] = {
    action.__name__: action
    for action in (
        add_gang,
        add_short_gang,
        remove_gang,
        relabel_gangs,
        run_again,
        change_settings,
        drift,
        lose_pod,
        delete_gang,
    )
}
