"""What of the cluster a plan rests on, and what is no news."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from compiler.kubernetes import CLUSTER_LABEL
from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.memory import ObservationMemory
from reconciler.observation.nodes import NodeIndex
from reconciler.observation.observe import Observation, Restrictions
from reconciler.planning.fingerprint import fingerprint_of, state_objects
from reconciler.planning.snapshot import Snapshot

GOOD = Snapshot("c0ffee", True, plan={"digest": "sha256:1", "gangs": []})
NUMA: Object = {
    "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
    "kind": "Numatopology",
    "metadata": {"name": "n", "uid": "t"},
    "spec": {
        "policies": {"CPUManagerPolicy": "static"},
        "cpuDetail": {"0": {"numa": 0}},
        "numares": {"cpu": {"allocatable": "0"}},
    },
}
NODE: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u"}}


def sight(topology: Object | None) -> Observation:
    return Observation(
        {"Node//n": NODE, **({"Numatopology.nodeinfo.volcano.sh//n": topology} if topology else {})}, frozenset()
    )


def test_the_layout_of_a_node_counts_and_what_pods_take_of_it_does_not() -> None:
    def print_of(topology: Object | None) -> Mapping[str, str]:
        return fingerprint_of(sight(topology), GOOD, frozenset()).nodes

    busy = {**NUMA, "spec": {**NUMA["spec"], "numares": {"cpu": {"allocatable": ""}}}}
    other = {**NUMA, "spec": {**NUMA["spec"], "cpuDetail": {"0": {"numa": 1}}}}
    assert print_of(NUMA) == print_of(busy)
    assert len({print_of(each)["n"] for each in (None, NUMA, other)}) == 3
    assert NUMA in state_objects(sight(NUMA))


def test_every_pod_counts_on_a_node_that_would_not_take_it_now_and_of_a_gang_that_waits() -> None:
    """S8: the plan in force keeps the pod where it is; when it goes, a new plan is needed."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j"}
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "d", "name": "j", "uid": "j"}}
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "d", "name": "p", "uid": "p", "ownerReferences": [owner]},
        "spec": {"nodeName": "n"},
    }
    lost = {**NODE, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    entry = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "d", "name": "j", "pods": {"w": {"n": 1}}}
    rest: Object = {"queue": "q", "domains": [], "reasons": [], "evictedFor": [], "startsAt": None}
    for node, decision, prints in ((NODE, "keep", 1), (lost, "keep", 2), (NODE, "wait", 2)):
        plan = {"gangs": [{**entry, **rest, "decision": decision}]}
        seen = []
        for pods in ({"Pod/d/p": pod}, {}):
            observation = Observation({"Node//n": node, "Job.batch/d/j": job, **pods}, frozenset())
            seen.append(fingerprint_of(observation, replace(GOOD, plan=plan), frozenset()).nodes["n"])
        assert len(set(seen)) == prints, (decision, prints)


def test_what_budgets_let_go_is_news_where_a_gang_waits() -> None:
    """A plan made while a budget lets nobody go is made again once it is gone."""
    entry = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "d", "name": "j", "pods": {}}
    rest: Object = {"queue": "q", "domains": [], "reasons": [], "evictedFor": [], "startsAt": None}

    def budget(namespace: str, allowed: int) -> dict[str, Object]:
        metadata = {"namespace": namespace, "name": "b", "uid": "b"}
        return {
            f"PodDisruptionBudget.policy/{namespace}/b": {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": metadata,
                "status": {"disruptionsAllowed": allowed},
            }
        }

    for decision, news in (("wait", 3), ("keep", 1)):
        plan = {"gangs": [{**entry, **rest, "decision": decision}]}
        budgets: tuple[dict[str, Object], ...] = budget("d", 0), budget("d", 1), {}, budget("other", 0)
        prints = [
            fingerprint_of(Observation({"Node//n": NODE, **some}, frozenset()), replace(GOOD, plan=plan), frozenset())
            for some in budgets
        ]
        assert len({each.restrictions for each in prints}) == news
        assert prints[2] == prints[3]


def test_domains_that_others_declare_are_news() -> None:
    """As Volcano discovers them; our own come with the plan."""
    head: Object = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode"}
    theirs = {**head, "metadata": {"name": "h", "uid": "h"}, "spec": {"tier": 1}}
    ours = {**theirs, "metadata": {"name": "h", "uid": "h", "labels": {CLUSTER_LABEL: "c"}}}
    seen = [
        fingerprint_of(Observation({"Node//n": NODE, **some}, frozenset()), GOOD, frozenset())
        for some in ({}, {"HyperNode.topology.volcano.sh//h": ours}, {"HyperNode.topology.volcano.sh//h": theirs})
    ]
    assert seen[0] == seen[1] != seen[2]


def test_pods_of_a_service_beyond_what_is_written_are_news() -> None:
    """A rolling update, or an autoscaler; below that, and of another job, gated pods are none."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "j", "uid": "j"}
    service: Object = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"namespace": "d", **owner}}
    entry = {"apiVersion": "apps/v1", "kind": "StatefulSet", "namespace": "d", "name": "j", "pods": {"w": {"n": 2}}}
    rest: Object = {"queue": "q", "domains": [], "reasons": [], "evictedFor": [], "startsAt": None}
    for written, prints in (({"written": {"w": 2}}, 2), ({}, 1)):
        plan = {"gangs": [{**entry, **rest, **written, "decision": "start"}]}
        seen = []
        for count in (0, 2, 3):
            pods = {}
            for number in range(count):
                metadata = {"namespace": "d", "name": f"j-{number}", "uid": f"{number}", "ownerReferences": [owner]}
                pods[f"Pod/d/j-{number}"] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}
            observation = Observation({"Node//n": NODE, "StatefulSet.apps/d/j": service, **pods}, frozenset())
            seen.append(fingerprint_of(observation, replace(GOOD, plan=plan), frozenset()))
        assert [each == seen[0] for each in seen] == [True, True, prints == 1]


def test_pods_that_ask_for_other_than_the_plan_counts_are_news_until_a_plan_counts_it() -> None:
    """As a webhook has made them; whether the gang waits or starts, and no more news when a gate is lifted."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "j"}
    job: Object = {**owner, "metadata": {"namespace": "d", **owner}, "spec": {}}
    entry: Object = {**owner, "namespace": "d", "pods": {"w": {}}, "queue": "q", "domains": [], "reasons": []}
    key, memory = "Job.batch.volcano.sh/d/j", ObservationMemory()

    def print_of(decision: str, planned: int, *asked: int, **spec: str) -> str:
        plan = {"gangs": [{**entry, "evictedFor": [], "startsAt": None, "decision": decision}]}
        snapshot = replace(GOOD, plan=plan, requests={key: [{"cpu": planned * 1000, "pods": 1}]})
        pods = {}
        for number, cpu in enumerate(asked):
            metadata = {"namespace": "d", "name": f"j-{number}", "uid": f"{number}", "ownerReferences": [owner]}
            containers = [{"resources": {"requests": {"cpu": cpu}}}]
            body: Object = {"metadata": metadata, "spec": {"containers": containers, **spec}}
            pods[f"Pod/d/j-{number}"] = {"apiVersion": "v1", "kind": "Pod", **body}
        observation = Observation({"Node//n": NODE, key: job, **pods}, frozenset(), memory=memory)
        return fingerprint_of(observation, snapshot, frozenset()).restrictions

    for decision in ("start", "wait"):
        usual = print_of(decision, 8)
        assert print_of(decision, 8, 8, 8) == usual
        assert len({print_of(decision, 8, *asked) for asked in ((48,), (48, 48), (8, 4))} | {usual}) == 4
        assert print_of(decision, 48, 48, 48) == usual
        assert print_of(decision, 8, 8, 48) == print_of(decision, 8, 8, 48, nodeName="n")


def test_the_end_of_a_step_of_a_flow_is_news_for_those_after_it() -> None:
    """No manifest of ours makes it, so no run of it is recorded; the next step waited for whatever came next."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "namespace": "d", "name": "nightly-a"}
    rest: Object = {"queue": "q", "domains": [], "reasons": [], "evictedFor": [], "startsAt": None, "pods": {}}
    snapshot = replace(GOOD, plan={"gangs": [{**owner, **rest, "decision": "start"}]})
    seen = set()
    for phase in ("Pending", "Running", "Completed"):
        step = {**owner, "metadata": {"namespace": "d", "name": "nightly-a", "uid": "a"}, "spec": {}}
        step["status"] = {"state": {"phase": phase}}
        observation = Observation({"Node//n": NODE, "Job.batch.volcano.sh/d/nightly-a": step}, frozenset())
        seen.add(fingerprint_of(observation, snapshot, frozenset()).restrictions)
    assert len(seen) == 2


def test_what_the_cluster_says_next_of_a_node_that_was_behind_is_news() -> None:
    late = replace(GOOD, nodes_behind=("n",))
    busy = {**NUMA, "spec": {**NUMA["spec"], "numares": {"cpu": {"allocatable": ""}}}}
    assert len({fingerprint_of(sight(each), late, frozenset()).nodes["n"] for each in (NUMA, busy)}) == 2
    bare: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "p"}, "spec": {"nodeName": "n"}}
    noted = {
        **bare,
        "metadata": {**bare["metadata"], "annotations": {"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,1000,0:"}},
    }
    for snapshot, prints in ((late, 2), (GOOD, 1)):
        seen = (Observation({"Node//n": NODE, "Pod//p": pod}, frozenset()) for pod in (bare, noted))
        assert len({fingerprint_of(each, snapshot, frozenset()).nodes["n"] for each in seen}) == prints


def test_what_is_remembered_of_former_observations_changes_no_fingerprint() -> None:
    """Pods, nodes, jobs and gangs are exchanged one at a time: with memory and without, the answers are the same."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j"}
    meta = {"namespace": "d", "name": "p", "uid": "p", "ownerReferences": [owner]}
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": "n"}}
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "d", "name": "j", "uid": "j"}}
    entry = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "d", "name": "j", "decision": "keep"}
    rest: Object = {"queue": "q", "domains": [], "reasons": [], "evictedFor": [], "startsAt": None}
    plans = [replace(GOOD, plan={"gangs": [{**entry, **rest, "pods": {"w": {at: 1}}}]}) for at in ("n", "other")]
    cordoned = {**NODE, "spec": {"unschedulable": True}}
    ended = {**pod, "status": {"phase": "Succeeded"}}
    heir = {**job, "metadata": {**job["metadata"], "uid": "j2"}}
    memory, seen = ObservationMemory(), []
    for node, each, owned, plan in (
        (NODE, pod, job, plans[0]),
        (NODE, pod, job, plans[1]),
        (NODE, ended, job, plans[0]),
        (cordoned, pod, job, plans[0]),
        (NODE, pod, heir, plans[0]),
        (NODE, pod, job, plans[0]),
    ):
        objects = {"Node//n": node, "Job.batch/d/j": owned, "Pod/d/p": each}
        known, fresh = Observation(objects, frozenset(), memory=memory), Observation(objects, frozenset())
        assert known.pods_by_job == fresh.pods_by_job
        seen.append(fingerprint_of(known, plan, frozenset()).nodes["n"])
        assert seen[-1] == fingerprint_of(fresh, plan, frozenset()).nodes["n"]
    assert seen[0] == seen[2] == seen[5]
    assert len(set(seen)) == 3


@pytest.mark.parametrize(
    ("api_version", "other", "prints"),
    [("batch.volcano.sh/v1alpha1", "wait", 2), ("batch.volcano.sh/v1alpha1", "keep", 1), ("batch/v1", "wait", 1)],
)
def test_a_pod_that_ends_well_is_news_for_jobs_that_wait(api_version: str, other: str, prints: int) -> None:
    owner = {"apiVersion": api_version, "kind": "Job", "name": "j", "uid": "j"}
    meta = {"namespace": "d", "name": "p", "uid": "p", "ownerReferences": [owner]}
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": "n"}}
    job: Object = {"apiVersion": api_version, "kind": "Job", "metadata": {"namespace": "d", "name": "j", "uid": "j"}}
    rest: Object = {"queue": "q", "domains": [], "reasons": [], "evictedFor": [], "startsAt": None}
    gangs = [
        {"apiVersion": api_version, "kind": "Job", "namespace": "d", "name": name, "decision": decision, **rest, **more}
        for name, decision, more in (("j", "keep", {"pods": {"w": {"n": 1}}}), ("other", other, {"pods": {}}))
    ]
    snapshot, seen = replace(GOOD, plan={"gangs": gangs}), set()
    for phase in ("Running", "Succeeded"):
        objects = {"Node//n": NODE, ref_of(job).key: job, "Pod/d/p": {**pod, "status": {"phase": phase}}}
        seen.add(fingerprint_of(Observation(objects, frozenset()), snapshot, frozenset()).restrictions)
    assert len(seen) == prints


def test_what_is_remembered_of_nodes_is_what_the_nodes_say() -> None:
    """Nodes come, go, change and stay: the index and the digests are those of a fresh look; a heartbeat changes
    neither."""

    def node(name: str, ready: str = "True", beat: int = 0, **spec: Any) -> Object:
        labels = {"kubernetes.io/hostname": f"host-of-{name}"}
        conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": beat}]
        status = {"conditions": conditions, "allocatable": {"cpu": "8"}}
        return {"metadata": {"name": name, "uid": name, "labels": labels}, "spec": spec, "status": status}

    a, b, c = (node(name) for name in "abc")
    memory = ObservationMemory()
    for nodes in ([], [a], [a, b], [a, c], [a, node("c", unschedulable=True)], [node("a", ready="Unknown"), b], [b]):
        assert memory.index_of(nodes) == NodeIndex.from_nodes(nodes, {})
        assert memory.node_digests(nodes) == ObservationMemory().node_digests(nodes)
    index, digests = memory.index_of([b]), memory.node_digests([b])
    assert memory.index_of([node("b", beat=1)]) is index
    assert memory.node_digests([node("b", beat=2)]) == digests


def test_what_is_a_job_is_asked_anew_of_what_has_changed_alone() -> None:
    def item(name: str, *annotations: str) -> Object:
        return {"metadata": {"name": name, "annotations": dict.fromkeys(annotations, "")}}

    a, b, mark = item("a"), item("b", "gangplan.dev/placement"), "gangplan.dev/waiting"
    memory = ObservationMemory()
    for objects in ({}, {"a": a, "b": b}, {"a": a, "b": item("b")}, {"b": b}, {"a": item("a", mark), "b": b}, {"a": a}):
        fresh = ObservationMemory().jobs_of_kind("Thing.x", objects)
        assert memory.jobs_of_kind("Thing.x", objects) == fresh
        assert list(fresh) == [key for key in objects if objects[key]["metadata"]["annotations"]]


def test_the_compiler_is_given_the_same_object_as_long_as_nothing_in_it_changes() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-0", "uid": "n", "managedFields": [{}]}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "p", "generation": 1},
        "spec": {},
        "status": {},
    }
    seen = Observation({ref_of(item).key: item for item in (node, pod)}, frozenset())
    first = state_objects(seen)
    assert [item["metadata"].keys() & {"managedFields", "generation"} for item in first] == [set(), set()]
    again = state_objects(
        replace(seen, objects={**seen.objects, ref_of(pod).key: {**pod, "status": {"phase": "Failed"}}})
    )
    assert again[0] is first[0]
    assert again[1]["status"] == {"phase": "Failed"}
    quarantined = state_objects(seen.with_restrictions(Restrictions(frozenset({"gpu-0"}))))
    assert quarantined[0]["spec"]["unschedulable"]
    assert "spec" not in state_objects(seen)[0], "no longer quarantined"
