"""Only our own fields count, amounts by value, spelled as the API server does; a job's change is classified before
anything is done."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from compiler.kubernetes import DIGEST_ANNOTATION, PLACEMENT_ANNOTATION, REPLACE_ANNOTATION
from compiler.syntax.runs import run_digest
from reconciler.changes.diff import Change, classify_change, field_differences, without_fields
from reconciler.changes.managed_fields import own_fields
from reconciler.cluster.objects import Object
from tests.builders.writing import thing, volcano_job

REPLACED: Any = {REPLACE_ANNOTATION: "true"}
AGAIN: Any = {"gangplan.dev/run": "2"}


def queue(**spec: Any) -> Object:
    return {**thing("Queue", "team", api="scheduling.volcano.sh/v1beta1", namespace=""), "spec": spec}


def applied(live: Object, fields: dict[str, Any]) -> Object:
    """The live object with `fields` as what we applied earlier."""
    entry = {"manager": "gangplan", "operation": "Apply", "fieldsV1": fields}
    return {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}


def paths(want: Object, live: Object) -> list[str]:
    return [field.path_text for field in field_differences(want, live)]


@pytest.mark.parametrize(
    ("want", "live", "found"),
    [
        (queue(weight=1), queue(weight=1, reclaimable=True, parent="root"), []),
        (
            queue(capability={"cpu": "12000m", "memory": "1Gi"}),
            queue(capability={"cpu": 12, "memory": "1073741824"}),
            [],
        ),
        (queue(guarantee={"resource": {"x/gpu": 4}}), queue(guarantee={"resource": {"x/gpu": "4"}}), []),
        (queue(weight=1, extra=None), queue(weight=1), []),
        (queue(weight=1), queue(weight=2), ["spec.weight"]),
        (queue(weight=1), queue(weight=True), ["spec.weight"]),
        (queue(capability={"cpu": "12"}), queue(capability={"cpu": "13"}), ["spec.capability.cpu"]),
        (queue(capability={"cpu": "12"}), queue(), ["spec.capability"]),
        (queue(members=[1, 2]), queue(members=[1]), ["spec.members"]),
        (queue(members=[{"a": 1}, {"a": 2}]), queue(members=[{"a": 1}, {"a": 3}]), ["spec.members[1].a"]),
        (queue(nodeSelector={"gpu": ""}), queue(nodeSelector={}), ["spec.nodeSelector.gpu"]),
        (queue(field={}), queue(), ["spec.field"]),
    ],
)
def test_each_differing_field_is_named_and_defaults_and_other_spellings_are_not(
    want: Object, live: Object, found: list[str]
) -> None:
    assert paths(want, live) == found


@pytest.mark.parametrize("nothing", [False, 0, "", []])
def test_what_the_server_leaves_out_is_no_difference(nothing: Any) -> None:
    assert paths(queue(field=nothing), queue()) == []
    assert paths(queue(field=nothing), queue(field="x")) == ["spec.field"]


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
    item = queue(weight=3, capability={"cpu": "1"})
    assert without_fields(item, ["spec.weight", "spec.absent.field"]) == queue(capability={"cpu": "1"})
    assert item == queue(weight=3, capability={"cpu": "1"})


def job(
    replicas: int = 4, minimum: int = 4, gpus: int = 1, digest: str = "", phase: str = "", **annotations: str
) -> Object:
    containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    template = {"spec": {"containers": containers}}
    task = {"name": "worker", "replicas": replicas, "minAvailable": minimum, "template": template}
    run = {DIGEST_ANNOTATION: digest} if digest else {}
    made = volcano_job("train", {"minAvailable": minimum, "tasks": [task]}, annotations={**annotations, **run})
    return {**made, **({"status": {"state": {"phase": phase}}} if phase else {})}


def decide(want: Object, live: Object | None, **about: Any) -> Change | None:
    run = "new" if want["kind"] == "Job" else ""
    return classify_change(Manifest(5, want, "jobs/train.yaml:1", run), live, **about)


def changed(want: Object, live: Object | None, **about: Any) -> tuple[Change, Object]:
    """The change, and what is to be written."""
    found = decide(want, live, **about)
    assert found is not None
    assert found.desired is not None
    return found, found.desired.object


def placed(text: str | None) -> Any:
    """The annotations of a job with this placement."""
    return {} if text is None else {PLACEMENT_ANNOTATION: text}


STARTED = {"has_started": True}


@pytest.mark.parametrize(
    ("want", "live", "about", "action"),
    [
        (job(digest="new"), None, {}, "create"),
        (job(digest="new"), None, {"finished_digest": "new"}, None),
        (job(digest="new"), None, {"finished_digest": "old"}, "create"),
        (job(digest="new"), job(digest="new"), STARTED, None),
        (job(digest="new"), job(digest="new", minimum=2), STARTED, "in-place"),
        (job(digest="new", replicas=8), job(digest="old"), STARTED, "in-place"),
        (job(digest="new", gpus=2), job(digest="old"), {}, "replace"),
        (job(digest="new", gpus=2), job(digest="old"), STARTED, "held"),
        (job(digest="new", gpus=2), job(digest="old", phase="Completed"), STARTED, "replace"),
        (job(digest="new"), job(digest="old", phase="Completed"), {**STARTED, "finished_digest": "old"}, "replace"),
        (job(digest="new"), job(digest="new", phase="Completed", minimum=1), STARTED, None),
        (job(digest="new", gpus=2), job(digest="new", phase="Failed"), STARTED, None),
        (job(digest="new", gpus=2), job(digest="new"), STARTED, "forbidden"),
        (job(digest="new"), job(digest="old"), {**STARTED, "is_update_refused": True}, "held"),
        (job(digest="new"), job(digest="old"), {"is_update_refused": True}, "replace"),
        (job(digest="new", gpus=2, **REPLACED), job(digest="old", **REPLACED), STARTED, "replace"),
    ],
)
def test_a_change_of_a_job_is_classified(
    want: Object, live: Object | None, about: dict[str, Any], action: str | None
) -> None:
    found = decide(want, live, **about)
    assert (found and found.action) == action


def test_fields_that_a_live_job_keeps_are_named() -> None:
    """Seen once, after a CRD without a field: the status said "these fields" and nothing more."""
    found = decide(job(digest="new", gpus=2), job(digest="new"), **STARTED)
    assert found is not None
    assert "spec.tasks[0].template" in found.reason


def test_what_can_be_changed_is_written_with_what_cannot_as_it_lives() -> None:
    found, written = changed(job(digest="new", gpus=2, minimum=3), job(digest="new"), **STARTED)
    assert (found.action, written["spec"]["minAvailable"]) == ("in-place", 3)
    assert written["spec"]["tasks"][0]["template"] == job()["spec"]["tasks"][0]["template"]


@pytest.mark.parametrize(
    ("planned", "about", "is_written"),
    [
        ('{"worker":{"n1":1}}', STARTED, False),
        ("{}", STARTED, False),
        ('{"worker":{"n1":1}}', {}, True),
        ('{"worker":{"n1":1,"n2":1}}', STARTED, True),
        ('{"worker":{"n1":3}}', STARTED, True),
        ('{"ps":{"n1":1}}', STARTED, True),
    ],
)
def test_the_end_of_pods_writes_no_placement(planned: str, about: dict[str, Any], is_written: bool) -> None:
    """Seen once: the placement of a job was rewritten as its workers ended: Volcano's own status write was refused at
    that moment, its controller lost `CompleteJob`, and the job ran for ever."""
    live = job(digest="new", **placed('{"worker":{"n1":2}}'))
    assert (decide(job(digest="new", **placed(planned)), live, **about) is not None) == is_written


@pytest.mark.parametrize(
    "text", [None, "", "[]", "{", '{"worker":3}', '{"worker":{"n1":"x"}}', '{"worker":{"n1":null}}']
)
def test_a_placement_that_nobody_can_read_is_written(text: str | None) -> None:
    live = job(digest="new", **placed(text))
    found, _ = changed(job(digest="new", **placed('{"worker":{"n1":1}}')), live, **STARTED)
    assert [field.steps[-1] for field in found.fields] == [PLACEMENT_ANNOTATION]


def test_another_change_keeps_the_placement_of_pods_that_ended() -> None:
    live = job(digest="new", **placed('{"worker":{"n1":2}}'))
    found, written = changed(job(digest="new", minimum=3, **placed("{}")), live, **STARTED)
    assert all("annotations" not in field.steps for field in found.fields)
    assert written["metadata"]["annotations"] == live["metadata"]["annotations"]


def test_claims_of_a_job_that_is_changed_keep_the_names_that_volcano_gave_them() -> None:
    want, live = job(digest="new", replicas=5), job(digest="old")
    claim, known = {"mountPath": "/a", "volumeClaim": {"x": 1}}, {"mountPath": "/b", "volumeClaimName": "b"}
    want["spec"]["volumes"] = [claim, known]
    live["spec"]["volumes"] = [{**claim, "volumeClaimName": "made"}, known]
    found, written = changed(want, live, **STARTED)
    assert (found.action, written["spec"]["volumes"]) == ("in-place", live["spec"]["volumes"])
    assert written["spec"]["tasks"][0]["replicas"] == 5


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
        return {**thing("Pod", "a"), "spec": {"tolerations": [{"key": key, "operator": "Exists"} for key in keys]}}

    assert bool(decide(pod(written), pod(live), **STARTED)) is differs


def test_a_bare_pod_whose_gate_was_lifted_differs_in_nothing() -> None:
    want: Object = {**thing("Pod", "p"), "spec": {"schedulingGates": [{"name": "gangplan.dev/placement"}]}}
    live: Object = {**want, "spec": {"nodeSelector": {"kubernetes.io/hostname": "n1"}, "nodeName": "n1"}}
    assert decide(want, live, **STARTED) is None
    found, written = changed({**want, **thing("Pod", "p", labels={"a": "b"})}, live, **STARTED)
    assert (found.action, [field.path_text for field in found.fields]) == ("update", ["metadata.labels"])
    assert written["spec"] == {}


def test_an_object_that_is_being_deleted_is_waited_for() -> None:
    live = queue(weight=1)
    live["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/slow"]}
    found, _ = changed(queue(weight=2), live)
    assert (found.action, "waits for example.com/slow" in found.reason) == ("held", True)


def test_a_run_is_named_by_what_the_user_specified_and_nothing_else() -> None:
    base = job()
    same = {**base, "status": {"state": {}}, "metadata": {"name": "train", "labels": {"a": "b"}}}
    assert run_digest(base) == run_digest(same)
    assert run_digest(base) not in (run_digest(job(replicas=5)), run_digest(job(**AGAIN)))


def entry(manager: str, fields: dict[str, Any], operation: str = "Apply") -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


def test_a_field_is_ours_alone_where_no_other_manager_holds_it() -> None:
    labels: dict[str, Any] = {"f:labels": {"f:x/y": {}}}
    ours = entry("gangplan", {"f:data": {".": {}, "f:a": {}, "f:b.c": {}}, "f:metadata": labels})
    theirs = entry("kubectl", {"f:data": {"f:a": {}, "f:d": {}}}, "Update")
    assert own_fields({"metadata": {"managedFields": [ours]}}) == {
        ".data",
        ".data.a",
        ".data.b.c",
        ".metadata.labels.x/y",
    }
    assert own_fields({"metadata": {"managedFields": [theirs, ours]}}) == {".data", ".data.b.c", ".metadata.labels.x/y"}
    status = {**entry("gangplan", {"f:status": {"f:a": {}}}), "subresource": "status"}
    assert own_fields({"metadata": {"managedFields": [entry("gangplan", {"f:a": {}}, "Update"), status]}}) == set()
    assert own_fields({"metadata": {}}) == set()


def test_items_of_lists_are_named_by_their_keys_and_values() -> None:
    ports: dict[str, Any] = {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:name": {}}}
    ours = entry("gangplan", {"f:spec": {'k:{"name":"main"}': {"f:ports": ports}, 'v:"text"': {}, "i:0": {}}})
    assert own_fields({"metadata": {"managedFields": [ours]}}) == {
        '.spec[name="main"].ports[containerPort=80,protocol="TCP"]',
        '.spec[name="main"].ports[containerPort=80,protocol="TCP"].name',
        '.spec[="text"]',
        ".spec[0]",
    }
