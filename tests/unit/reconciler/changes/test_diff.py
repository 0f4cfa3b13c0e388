"""Only our own fields count, amounts by value; a job's change is classified before anything is done."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from compiler.kubernetes import DIGEST_ANNOTATION, REPLACE_ANNOTATION
from compiler.syntax.runs import run_digest
from reconciler.changes.diff import classify_change, field_differences, without_fields
from reconciler.cluster.objects import Object

REPLACED: Any = {REPLACE_ANNOTATION: "true"}
AGAIN: Any = {"gangplan.dev/run": "2"}


def queue(**spec: Any) -> Object:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"}, "spec": spec}


def applied(live: Object, fields: dict[str, Any]) -> Object:
    """The live object with `fields` as what we applied earlier."""
    copied = copy.deepcopy(live)
    copied["metadata"]["managedFields"] = [{"manager": "gangplan", "operation": "Apply", "fieldsV1": fields}]
    return copied


def paths(want: Object, live: Object) -> list[str]:
    return [field.path_text for field in field_differences(want, live)]


@pytest.mark.parametrize(
    ("want", "live"),
    [
        (queue(weight=1), queue(weight=1, reclaimable=True, parent="root")),
        (queue(capability={"cpu": "12000m", "memory": "1Gi"}), queue(capability={"cpu": 12, "memory": "1073741824"})),
        (queue(guarantee={"resource": {"nvidia.com/gpu": 4}}), queue(guarantee={"resource": {"nvidia.com/gpu": "4"}})),
        (queue(weight=1, extra=None), queue(weight=1)),
    ],
)
def test_defaults_and_other_spellings_are_no_drift(want: Object, live: Object) -> None:
    assert paths(want, live) == []


@pytest.mark.parametrize(
    ("want", "live", "found"),
    [
        (queue(weight=1), queue(weight=2), ["spec.weight"]),
        (queue(weight=1), queue(weight=True), ["spec.weight"]),
        (queue(capability={"cpu": "12"}), queue(capability={"cpu": "13"}), ["spec.capability.cpu"]),
        (queue(capability={"cpu": "12"}), queue(), ["spec.capability"]),
        (queue(members=[1, 2]), queue(members=[1]), ["spec.members"]),
        (queue(members=[{"a": 1}, {"a": 2}]), queue(members=[{"a": 1}, {"a": 3}]), ["spec.members[1].a"]),
    ],
)
def test_each_differing_field_is_named(want: Object, live: Object, found: list[str]) -> None:
    assert paths(want, live) == found


def test_a_field_that_we_applied_and_no_longer_want_is_a_difference_and_a_foreign_one_is_not() -> None:
    live = queue(weight=1, capability={"cpu": "1", "memory": "1Gi"})
    ours: Object = {"f:spec": {"f:weight": {}, "f:capability": {"f:cpu": {}}}}
    assert paths(queue(weight=1), applied(live, ours)) == ["spec.capability"]
    assert paths(queue(weight=1, capability={}), applied(live, ours)) == ["spec.capability.cpu"]
    assert paths(queue(weight=1), live) == []


def test_a_list_that_the_server_merges_is_compared_item_by_item() -> None:
    want = queue(ports=[{"port": 80, "name": "web"}])
    live = applied(
        queue(ports=[{"port": 9090, "name": "injected"}, {"port": 80, "name": "web"}]),
        {"f:spec": {"f:ports": {'k:{"port":80}': {}}}},
    )
    assert paths(want, live) == []
    live["spec"]["ports"][1]["name"] = "changed"
    assert paths(want, live) == ["spec.ports[0].name"]


def test_fields_left_to_others_are_not_even_sent() -> None:
    thing = queue(weight=3, capability={"cpu": "1"})
    assert without_fields(thing, ["spec.weight", "spec.absent.field"]) == queue(capability={"cpu": "1"})
    assert thing == queue(weight=3, capability={"cpu": "1"})


@pytest.mark.parametrize("nothing", [False, 0, "", []])
def test_what_the_server_leaves_out_is_no_difference(nothing: Any) -> None:
    assert paths(queue(field=nothing), queue()) == []
    assert paths(queue(field=nothing), queue(field="x")) == ["spec.field"]
    assert paths(queue(field={}), queue()) == ["spec.field"]


def test_an_empty_label_is_a_value() -> None:
    assert paths(queue(nodeSelector={"gpu": ""}), queue(nodeSelector={})) == ["spec.nodeSelector.gpu"]


def job(
    replicas: int = 4, minimum: int = 4, gpus: int = 1, digest: str = "", phase: str = "", **annotations: str
) -> Object:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    meta: dict[str, Any] = {
        "namespace": "default",
        "name": "train",
        "annotations": {**annotations, **({DIGEST_ANNOTATION: digest} if digest else {})},
    }
    task = {
        "name": "worker",
        "replicas": replicas,
        "minAvailable": minimum,
        "template": {"spec": {"containers": [container]}},
    }
    status = {"status": {"state": {"phase": phase}}} if phase else {}
    spec = {"minAvailable": minimum, "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec, **status}


def decide(
    want: Object, live: Object | None, *, done: str | None = None, started: bool = False, refused: bool = False
) -> str:
    found = classify_change(
        Manifest(5, want, "jobs/train.yaml:1", "new"),
        live,
        finished_digest=done,
        has_started=started,
        is_update_refused=refused,
    )
    return found.action if found else "nothing"


@pytest.mark.parametrize(
    ("want", "live", "about", "action"),
    [
        (job(digest="new"), None, {}, "create"),
        (job(digest="new"), None, {"done": "new"}, "nothing"),
        (job(digest="new"), None, {"done": "old"}, "create"),
        (job(digest="new"), job(digest="new"), {"started": True}, "nothing"),
        (job(digest="new"), job(digest="new", minimum=2), {"started": True}, "in-place"),
        (job(digest="new", replicas=8), job(digest="old"), {"started": True}, "in-place"),
        (job(digest="new", gpus=2), job(digest="old"), {"started": False}, "replace"),
        (job(digest="new", gpus=2), job(digest="old"), {"started": True}, "held"),
        (job(digest="new", gpus=2), job(digest="old", phase="Completed"), {"started": True}, "replace"),
        (job(digest="new"), job(digest="old", phase="Completed"), {"started": True, "done": "old"}, "replace"),
        (job(digest="new"), job(digest="new", phase="Completed", minimum=1), {"started": True}, "nothing"),
        (job(digest="new", gpus=2), job(digest="new", phase="Failed"), {"started": True}, "nothing"),
        (job(digest="new", gpus=2), job(digest="new"), {"started": True}, "forbidden"),
        (job(digest="new"), job(digest="old"), {"started": True, "refused": True}, "held"),
        (job(digest="new"), job(digest="old"), {"started": False, "refused": True}, "replace"),
        (job(digest="new", gpus=2, **REPLACED), job(digest="old", **REPLACED), {"started": True}, "replace"),
    ],
)
def test_a_change_of_a_job_is_classified(want: Object, live: Object | None, about: dict[str, Any], action: str) -> None:
    assert decide(want, live, **about) == action


def test_what_can_be_changed_is_written_with_what_cannot_as_it_lives() -> None:
    found = classify_change(
        Manifest(5, job(digest="new", gpus=2, minimum=3), "jobs/train.yaml:1", "new"),
        job(digest="new"),
        finished_digest=None,
        has_started=True,
        is_update_refused=False,
    )
    assert found is not None
    assert found.action == "in-place"
    assert found.desired is not None
    assert found.desired.object["spec"]["minAvailable"] == 3
    assert found.desired.object["spec"]["tasks"][0]["template"] == job()["spec"]["tasks"][0]["template"]


def test_claims_of_a_job_that_is_changed_keep_the_names_that_volcano_gave_them() -> None:
    want, live = job(digest="new", replicas=5), job(digest="old")
    want["spec"]["volumes"] = [
        {"mountPath": "/a", "volumeClaim": {"x": 1}},
        {"mountPath": "/b", "volumeClaimName": "b"},
    ]
    live["spec"]["volumes"] = [{**want["spec"]["volumes"][0], "volumeClaimName": "made"}, want["spec"]["volumes"][1]]
    found = classify_change(
        Manifest(5, want, "jobs/train.yaml:1", "new"),
        live,
        finished_digest=None,
        has_started=True,
        is_update_refused=False,
    )
    assert found is not None
    assert found.action == "in-place"
    assert found.desired is not None
    assert found.desired.object["spec"]["volumes"] == live["spec"]["volumes"]
    assert found.desired.object["spec"]["tasks"][0]["replicas"] == 5


@pytest.mark.parametrize(
    ("written", "live", "differs"),
    [
        (["a"], ["a", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"], False),
        (["a"], ["a"], False),
        (["a"], ["b", "node.kubernetes.io/not-ready"], True),
        (["a"], ["a", "b"], True),
        (["a", "b"], ["a"], True),
    ],
)
def test_tolerations_that_every_pod_gets_are_no_difference(written: list[str], live: list[str], differs: bool) -> None:
    def pod(keys: list[str]) -> Object:
        rows = [{"key": key, "operator": "Exists"} for key in keys]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"tolerations": rows}}

    found = classify_change(
        Manifest(5, pod(written), "a.yaml:1"),
        pod(live),
        finished_digest=None,
        has_started=True,
        is_update_refused=False,
    )
    assert bool(found) is differs


def test_an_object_that_is_being_deleted_is_waited_for() -> None:
    live = queue(weight=1)
    live["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/slow"]}
    want = queue(weight=2)
    found = classify_change(
        Manifest(1, want, "queue.yaml:1"), live, finished_digest=None, has_started=False, is_update_refused=False
    )
    assert found is not None
    assert found.action == "held"
    assert "waits for example.com/slow" in found.reason


def test_a_run_is_named_by_what_the_user_specified_and_nothing_else() -> None:
    base = job()
    assert run_digest(base) == run_digest(
        {**base, "status": {"state": {}}, "metadata": {"name": "train", "labels": {"a": "b"}}}
    )
    assert run_digest(base) != run_digest(job(replicas=5))
    assert run_digest(base) != run_digest(job(**AGAIN))


def test_a_bare_pod_whose_gate_was_lifted_differs_in_nothing() -> None:
    gate = [{"name": "gangplan.dev/placement"}]
    want: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulingGates": gate}}
    live: Object = {**want, "spec": {"nodeSelector": {"kubernetes.io/hostname": "n1"}, "nodeName": "n1"}}

    def change(**metadata: object) -> Any:
        desired = Manifest(5, {**want, "metadata": {"name": "p", **metadata}}, "")
        return classify_change(desired, live, finished_digest=None, has_started=True, is_update_refused=False)

    assert change() is None
    found = change(labels={"a": "b"})
    assert (found.action, [field.path_text for field in found.fields]) == ("update", ["metadata.labels"])
    assert found.desired.object["spec"] == {}
