"""Edits of random repositories: what a comparison says of each is true, and nothing of weight is missing.

Judged by plans of both revisions for the empty cluster and by the reconciler's own classification of the manifests.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.comparison.compare import HELD, Comparison, Revision, compare
from compiler.comparison.render import comparison_document, comparison_markdown, comparison_sarif, comparison_text
from compiler.emit.live_changes import written_differences
from compiler.emit.manifest import Manifest
from compiler.emit.waves import manifests
from compiler.kubernetes import DIGEST_ANNOTATION, REPLACE_ANNOTATION, SUSPEND_ANNOTATION, name_of, namespace_of
from compiler.outcome import Outcome
from compiler.pipeline import compile_specs
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.views.data import queue_entries
from reconciler.changes.diff import classify_change
from tests.builders import declared
from tests.builders.declared import GPU, priority_class
from tests.builders.depth import sample

EDITS = 60
World = dict[str, dict[str, Any]]
"""File -> its object."""
TREATMENTS: Mapping[str | None, str] = {"in-place": "in place", "held": "new run", "replace": "restart"}


def pool(name: str, count: int, **spec: Any) -> dict[str, Any]:
    shape = {"count": count, "capacity": {"cpu": 32, "memory": "64Gi", "pods": 110, GPU: 8}, "labels": {"pool": name}}
    return declared.declared("NodePool", name, {**shape, **spec})


def queue(name: str, deserved: int, capability: int) -> dict[str, Any]:
    return declared.queue(name, reclaimable=True, deserved={GPU: deserved}, capability={GPU: capability})


def scheduler() -> dict[str, Any]:
    tiers = ("priority", "gang", "conformance"), ("drf", "predicates", "capacity", "nodeorder")
    return declared.scheduler(*tiers, actions=("enqueue", "allocate", "backfill"))


def template(gpus: int, selector: Mapping[str, str]) -> dict[str, Any]:
    container = {"name": "pytorch", "image": "x:1", "resources": {"limits": {GPU: gpus}, "requests": {"cpu": 1}}}
    chosen = {"nodeSelector": dict(selector)} if selector else {}
    return {"spec": {"restartPolicy": "Never", "containers": [container], **chosen}}


def job(chooser: Random, name: str) -> dict[str, Any]:
    pods, gpus = chooser.choice((1, 2, 2, 3, 4)), chooser.choice((2, 4, 8, 8))
    selector = chooser.choice(({}, {}, {"pool": "n"}))
    kind = chooser.choice(("Volcano", "Volcano", "Volcano", "Job", "PyTorchJob"))
    chosen, level = chooser.choice("ab"), chooser.choice(("high", "low", "low"))
    day = f"2026-01-{chooser.randint(1, 28):02}T00:00:00Z"
    metadata: dict[str, Any] = {"name": name, "namespace": "t", "annotations": {"gangplan.dev/submitted-at": day}}
    if kind == "Volcano":
        minimum = chooser.choice((pods, pods, max(1, pods - 1)))
        spec = {"schedulerName": "volcano", "queue": chosen, "priorityClassName": level, "minAvailable": minimum}
        task = {"name": "w", "replicas": pods, "template": template(gpus, selector)}
        topology = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}} if chooser.random() < 0.3 else {}
        spec |= {"tasks": [task], **topology}
        return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}
    metadata["annotations"]["scheduling.volcano.sh/queue-name"] = chosen
    pod = template(gpus, selector)
    pod["spec"] |= {"schedulerName": "volcano", "priorityClassName": level}
    if kind == "Job":
        spec = {"parallelism": pods, "completions": pods, "template": pod}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    pod["spec"].pop("restartPolicy")
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": pods, "restartPolicy": "Never", "template": pod}}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec}


def random_world(chooser: Random) -> World:
    size = chooser.choice((1, 2, 2))
    topology = {"topology": [{"name": "sn", "size": 2}, {"name": "spine", "size": 2}][:size]}
    total = (nodes := chooser.choice((4, 5, 6))) * 8
    share = chooser.choice((total // 2, total // 4))
    world: World = {
        "cluster-specs/c/pool.yaml": pool("n", nodes, **topology),
        "cluster-specs/c/a.yaml": queue("a", share, chooser.choice((total, share + 8))),
        "cluster-specs/c/b.yaml": queue("b", total - share, total),
        "cluster-specs/c/high.yaml": priority_class("high", 100),
        "cluster-specs/c/low.yaml": priority_class("low", 10),
        "cluster-specs/c/scheduler.yaml": scheduler(),
    }
    if chooser.random() < 0.3:
        world["cluster-specs/c/other.yaml"] = pool("m", 2)
    for at in range(chooser.randint(4, 7)):
        world[f"jobs/j{at}.yaml"] = job(chooser, f"j{at}")
    return world


def jobs_of(world: World) -> list[str]:
    return [name for name in world if name.startswith("jobs/")]


def pod_spec(data: Mapping[str, Any]) -> dict[str, Any]:
    spec = data["spec"]
    holder = (
        spec.get("tasks", [spec])[0] if "pytorchReplicaSpecs" not in spec else spec["pytorchReplicaSpecs"]["Worker"]
    )
    found: dict[str, Any] = holder["template"]["spec"]
    return found


def volcano_jobs(world: World) -> list[str]:
    return [name for name in jobs_of(world) if "tasks" in world[name]["spec"]]


def set_limit(chooser: Random, world: World) -> None:
    spec = world[f"cluster-specs/c/{chooser.choice('ab')}.yaml"]["spec"]
    spec["capability"][GPU] = chooser.choice((8, 16, 24, 40))
    spec["deserved"][GPU] = min(spec["deserved"][GPU], spec["capability"][GPU])


def set_share(chooser: Random, world: World) -> None:
    spec = world["cluster-specs/c/a.yaml"]["spec"]
    spec["deserved"][GPU] = chooser.choice((0, 8, spec["capability"][GPU]))


def set_pool(chooser: Random, world: World) -> None:
    spec = world["cluster-specs/c/pool.yaml"]["spec"]
    change = chooser.choice(("taint", "fewer", "more", "smaller", "domains", "flat", "label"))
    if change == "taint":
        spec["taints"] = [{"key": "maintenance", "effect": "NoSchedule"}]
    elif change in ("fewer", "more"):
        spec["count"] += -2 if change == "fewer" else 2
    elif change == "smaller":
        spec["capacity"][GPU] = 4
    elif change == "domains":
        spec["topology"][0]["size"] = chooser.choice((1, 4))
    elif change == "flat":
        del spec["topology"]
    else:
        spec["labels"] = {"pool": "renamed"}


def set_image(chooser: Random, world: World) -> None:
    data = world[chooser.choice(jobs_of(world))]
    pod_spec(data)["containers"][0]["image"] = "x:2"
    if chooser.random() < 0.4:
        data["metadata"]["annotations"][REPLACE_ANNOTATION] = "true"


def set_request(chooser: Random, world: World) -> None:
    limits = pod_spec(world[chooser.choice(jobs_of(world))])["containers"][0]["resources"]["limits"]
    limits[GPU] = chooser.choice((1, 8, 9))


def drop_selector(chooser: Random, world: World) -> None:
    for name in chooser.sample(jobs_of(world), len(jobs_of(world))):
        if pod_spec(world[name]).pop("nodeSelector", None):
            return


def set_pods(chooser: Random, world: World) -> None:
    spec = world[chooser.choice(jobs_of(world))]["spec"]
    step = chooser.choice((-1, 1, 2, 6))
    if "tasks" in spec:
        spec["tasks"][0]["replicas"] = max(1, spec["tasks"][0]["replicas"] + step)
        spec["minAvailable"] = min(spec["minAvailable"], spec["tasks"][0]["replicas"])
    elif "parallelism" in spec:
        spec["parallelism"] = max(1, spec["parallelism"] + step)
    else:
        worker = spec["pytorchReplicaSpecs"]["Worker"]
        worker["replicas"] = max(1, worker["replicas"] + step)


def set_minimum(chooser: Random, world: World) -> None:
    for name in volcano_jobs(world)[:1]:
        world[name]["spec"]["minAvailable"] = chooser.randint(1, world[name]["spec"]["tasks"][0]["replicas"])


def set_retries(chooser: Random, world: World) -> None:
    for name in volcano_jobs(world)[:1]:
        world[name]["spec"]["maxRetry"] = chooser.choice((3, 5))


def rename_job(chooser: Random, world: World) -> None:
    world[chooser.choice(jobs_of(world))]["metadata"]["name"] = "renamed"


def remove_job(chooser: Random, world: World) -> None:
    del world[chooser.choice(jobs_of(world))]


def add_job(chooser: Random, world: World) -> None:
    world["jobs/new.yaml"] = job(chooser, "new")


def annotate_job(chooser: Random, world: World) -> None:
    notes = world[chooser.choice(jobs_of(world))]["metadata"]["annotations"]
    key = chooser.choice((SUSPEND_ANNOTATION, "example.org/note", "gangplan.dev/run"))
    notes[key] = "true" if key == SUSPEND_ANNOTATION else "2"


def set_queue(chooser: Random, world: World) -> None:
    for name in volcano_jobs(world)[:1]:
        spec = world[name]["spec"]
        spec["queue"] = "b" if spec["queue"] == "a" else "a"


def rename_queue(chooser: Random, world: World) -> None:
    world["cluster-specs/c/b.yaml"]["metadata"]["name"] = "bb"
    for name in jobs_of(world):
        data = world[name]
        if data["spec"].get("queue") == "b":
            data["spec"]["queue"] = "bb"
        if data["metadata"]["annotations"].get("scheduling.volcano.sh/queue-name") == "b":
            data["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = "bb"


def set_priority(chooser: Random, world: World) -> None:
    data = world["cluster-specs/c/low.yaml"]
    data["value"] = 1000
    if chooser.random() < 0.5:
        data["metadata"]["annotations"] = {REPLACE_ANNOTATION: "true"}


def set_class(chooser: Random, world: World) -> None:
    for name in volcano_jobs(world)[:1]:
        world[name]["spec"]["priorityClassName"] = chooser.choice(("high", "low", "none"))


def set_scheduler(chooser: Random, world: World) -> None:
    spec = world["cluster-specs/c/scheduler.yaml"]["spec"]
    change = chooser.choice(("order", "reclaim", "tier"))
    if change == "order":
        spec["tiers"][0]["plugins"].reverse()
    elif change == "reclaim":
        spec["actions"] += ["preempt", "reclaim"]
    else:
        spec["tiers"][1]["plugins"].append(spec["tiers"][0]["plugins"].pop(0))


def break_file(chooser: Random, world: World) -> None:
    for name in volcano_jobs(world)[:1]:
        world[name]["spec"][chooser.choice(("queue", "minAvailable"))] = "nothing"


EDITORS: tuple[Callable[[Random, World], None], ...] = (
    *(set_limit, set_share, set_pool, set_pool, set_image, set_request, drop_selector, set_pods, set_pods, set_minimum),
    *(set_retries, rename_job, remove_job, add_job, annotate_job, set_queue, rename_queue, set_priority, set_class),
    *(set_scheduler, break_file),
)


def revision_of(world: World) -> Revision:
    tree = Repository({name: json.dumps(data).encode() for name, data in world.items()})
    specs = read_specs(tree)
    compile_empty = cache(lambda: compile_specs(tree, specs, None))

    def compile_against(state: ClusterState | None) -> Outcome:
        return compile_empty() if state is None else compile_specs(tree, specs, state)

    return Revision(specs, compile_against)


@dataclass(frozen=True)
class Judge:
    """Both revisions planned for the empty cluster, and what the comparison says."""

    base: Outcome
    head: Outcome
    said: Comparison

    def mistakes(self) -> Iterator[str]:
        """What is false or missing."""
        refused = {each.object for each in self.said.errors} if any(self.said.errors) else set()
        if self.head.error_count or refused:
            yield from self._mistakes_of_a_rejection()
            return
        yield from self._false_statements()
        yield from self._missing_statements()
        yield from self._false_treatments()
        yield from self._false_queues()

    def _mistakes_of_a_rejection(self) -> Iterator[str]:
        errors = {(each.code, each.object) for each in self.head.diagnostics if each.severity == "error"}
        if not errors <= {(each.code, each.object) for each in self.said.errors}:
            yield "an error is missing"
        if errors != {(each.code, each.object) for each in self.said.errors if each.code != "GP505"}:
            yield "an error that the head does not have"
        if self.said.jobs or self.said.queues or self.said.lost_restarts or not self.said.fails("error"):
            yield "something is said to happen although the commit is rejected"

    def _false_statements(self) -> Iterator[str]:
        before, after = ({each.name: each for each in found.decisions} for found in (self.base, self.head))
        for change in self.said.jobs:
            old, new = before.get(change.name), after.get(change.name)
            if change.effect == "removed" and new is not None and new.gang.document.kind == change.job_kind:
                yield f"{change.name} is not removed"
            if change.effect == "never" and not (new and new.never):
                yield f"{change.name} can start on the empty cluster"
            if change.effect in ("new run", "restarts", "shrinks", "grows", "moves") and not (old and old.pods):
                yield f"{change.name} does not run under the base"
            if change.is_new == (old is not None and old.gang.document.kind == change.job_kind):
                yield f"{change.name} is new or not"
        for lost in self.said.lost_restarts:
            old, new = before[lost.name], after[lost.name]
            if new.action != "wait" or new.never != (lost.never or old.never) or not old.pods:
                yield f"{lost.name} would start again"
            if new.reasons and lost.why != new.reasons[0].message:
                yield f"{lost.name} waits for another reason"

    def _missing_statements(self) -> Iterator[str]:
        before, after = ({each.key: each for each in found.decisions} for found in (self.base, self.head))
        named = {(change.name, change.job_kind) for change in (*self.said.jobs, *self.said.lost_restarts)}
        for key in before.keys() ^ after.keys():
            if (f"{key[0]}/{key[1]}", key[2]) not in named:
                yield f"{key} came or went without a word"
        for key in before.keys() & after.keys():
            old, new = before[key], after[key]
            is_worse = (old.pods and new.action == "wait") or (new.never and not old.never)
            if is_worse and (f"{key[0]}/{key[1]}", key[2]) not in named:
                yield f"{key} would not start again, and nothing says so"
            if old.gang.document.data != new.gang.document.data and (f"{key[0]}/{key[1]}", key[2]) not in named:
                yield f"{key} is edited without a word"

    def _false_treatments(self) -> Iterator[str]:
        """The reconciler, asked about what it would hold live of the base."""
        desired, live = (
            {
                (each.object["kind"], each.object["apiVersion"], namespace_of(each.object), name_of(each.object)): each
                for each in manifests(found)
            }
            for found in (self.head, self.base)
        )
        decisions = {(each.gang.document.kind, each.name): each for each in self.base.decisions}
        said = {(change.job_kind, change.name): change for change in self.said.jobs if change.treatment}
        for key in desired.keys() & live.keys():
            if not desired[key].run_digest or desired[key].run_digest == live[key].run_digest:
                continue
            name = key[0], f"{key[2]}/{key[3]}"
            has_started = bool(decisions[name].pods)
            expected = expected_treatment(desired[key], live[key], has_started=has_started)
            found = said[name].treatment if name in said else None
            if found != expected and not is_suspended(desired[key].object):
                yield f"{name} takes effect as {found}, and the reconciler does it as {expected}"

    def _false_queues(self) -> Iterator[str]:
        before, after = ({each["name"]: each for each in queue_entries(found)} for found in (self.base, self.head))
        named = {each.name: each for each in self.said.queues}
        for name in before.keys() | after.keys():
            declared = [
                None if (entry := found.get(name)) is None else (entry["guarantee"], entry["capability"])
                for found in (before, after)
            ]
            if declared[0] != declared[1] and name not in named:
                yield f"queue {name} changed without a word"
        for change in self.said.queues:
            for resource in change.above:
                if change.after is None or change.after[HELD][resource] <= change.after["capability"][resource]:
                    yield f"queue {change.name} does not hold more than its capability"


def is_suspended(item: Mapping[str, Any]) -> bool:
    return bool(item["metadata"].get("annotations", {}).get(SUSPEND_ANNOTATION) == "true")


def expected_treatment(desired: Manifest, live: Manifest, *, has_started: bool) -> str:
    """By the reconciler's own `classify_change`; the server refuses to remove a field inside a list as well."""
    if not has_started:
        return "at once"
    held = with_digest(live)
    held.object["metadata"]["managedFields"] = [
        {"manager": "gangplan", "operation": "Apply", "fieldsV1": field_set(held.object)}
    ]
    wanted = with_digest(desired)
    change = classify_change(wanted, held.object, has_started=True)
    if change is not None and change.action == "in-place":
        exact = {each.path_text for each in written_differences(wanted.object, with_digest(live).object)}
        lost = {path for path in exact if path.startswith("spec.tasks[0].template")}
        if lost:
            change = classify_change(wanted, held.object, has_started=True, is_update_refused=True)
    return TREATMENTS[None if change is None else change.action]


def with_digest(manifest: Manifest) -> Manifest:
    item = copy.deepcopy(manifest.object)
    item["metadata"].setdefault("annotations", {})[DIGEST_ANNOTATION] = manifest.run_digest
    return Manifest(manifest.wave, item, manifest.position, manifest.run_digest, manifest.pods)


def field_set(item: Any) -> dict[str, Any]:
    """What a server-side apply of the object would own."""
    if not isinstance(item, dict):
        return {}
    return {f"f:{key}": field_set(value) for key, value in item.items() if key not in ("apiVersion", "kind")}


@pytest.mark.parametrize("seed", range(sample(EDITS)))
def test_what_is_said_of_an_edit_is_true_and_whole(seed: int) -> None:
    chooser = Random(seed)  # noqa: S311  - not a secret
    world = random_world(chooser)
    edited = copy.deepcopy(world)
    EDITORS[seed % len(EDITORS)](chooser, edited)
    base, head = revision_of(world), revision_of(edited)
    said = compare(base, head, None)
    assert not list(Judge(base.compile(None), head.compile(None), said).mistakes())
    assert said.is_empty == (world == edited) or said.is_empty
    assert comparison_text([said], "x", "y")
    assert comparison_markdown([said], "x", "y")
    json.dumps(comparison_document([said], "x", "y"))
    json.loads(comparison_sarif([said], "x", "y"))
