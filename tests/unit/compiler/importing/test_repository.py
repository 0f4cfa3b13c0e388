from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from compiler.importing.repository import import_objects
from compiler.importing.written_form import written_form
from compiler.kubernetes import LAST_APPLIED_ANNOTATION
from tests.builders.manifests import Manifest, cluster_manifests, job_manifests

BOOKKEEPING = {
    "uid": "u",
    "resourceVersion": "7",
    "generation": 2,
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "managedFields": [{"manager": "kubectl"}],
}
OWN = ("Cluster", "NodePool", "SchedulerConfiguration")
CONF = """\
actions: "allocate, backfill"
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
  - name: binpack
    arguments: {binpack.weight: 10}
"""


def live(manifest: Manifest, **metadata: Any) -> Manifest:
    """The manifest as a server gives it back."""
    return {**manifest, "metadata": {**manifest["metadata"], **BOOKKEEPING, **metadata}, "status": {"ready": 1}}


def config_map(text: str) -> Manifest:
    metadata = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"volcano-scheduler.conf": text}}


def imported(*objects: Manifest, adopt: bool = False) -> dict[str, list[Manifest]]:
    found = import_objects(objects, "c", adopt=adopt)
    return {path: list(yaml.safe_load_all(text)) for path, text in found.files.items()}


@pytest.mark.parametrize(
    "manifest",
    [each for each in (*cluster_manifests(), *job_manifests()) if each["kind"] not in OWN],
    ids=lambda each: f"{each['kind']}-{each['metadata']['name']}",
)
def test_bookkeeping_goes_and_what_was_written_stays(manifest: Manifest) -> None:
    found = written_form(live(manifest))
    assert "status" not in found
    assert found["metadata"] == manifest["metadata"]
    for key, value in (manifest.get("spec") or {}).items():
        assert found["spec"].get(key, value) == value


def test_a_workload_loses_what_the_server_filled_in() -> None:
    """As a server of Kubernetes 1.35 gives a Deployment of four lines."""
    container = {
        "name": "a",
        "image": "registry:5000/a",
        "imagePullPolicy": "Always",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    pod = {
        "containers": [container],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "volcano",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    spec = {
        "progressDeadlineSeconds": 600,
        "replicas": 2,
        "revisionHistoryLimit": 10,
        "selector": {"matchLabels": {"app": "a"}},
        "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"},
        "template": {"metadata": {"creationTimestamp": None, "labels": {"app": "a"}}, "spec": pod},
    }
    metadata = {"name": "a", "namespace": "n", "annotations": {"deployment.kubernetes.io/revision": "3"}}
    given = live({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    assert imported(given)["jobs/n/deployment-a.yaml"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "a"}},
                "template": {
                    "metadata": {"labels": {"app": "a"}},
                    "spec": {"containers": [{"name": "a", "image": "registry:5000/a"}], "schedulerName": "volcano"},
                },
            },
        }
    ]


@pytest.mark.parametrize(("live_weight", "has_comment"), [(2, True), (3, False)])
def test_the_applied_file_counts_while_all_of_it_holds(live_weight: int, has_comment: bool) -> None:
    applied = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "q", "annotations": {}},
        "spec": {"weight": 2, "capability": {"cpu": "2000m"}},
    }
    spec = {"weight": live_weight, "capability": {"cpu": 2}, "reclaimable": True, "parent": "root"}
    found = written_form(
        {
            **applied,
            "metadata": {"name": "q", "annotations": {LAST_APPLIED_ANNOTATION: json.dumps(applied)}},
            "spec": spec,
        }
    )
    assert found["metadata"] == {"name": "q"}
    assert found["spec"] == (applied["spec"] if has_comment else {"weight": 3, "capability": {"cpu": 2}})


def test_only_what_people_wrote_becomes_a_file() -> None:
    manifests = {f"{each['apiVersion'].partition('/')[0]} {each['kind']}": each for each in job_manifests()}
    job = manifests["batch.volcano.sh Job"]
    owner = [{"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "name": "f", "uid": "u", "controller": True}]
    plain = json.loads(json.dumps(manifests["batch Job"]).replace('"schedulerName": "volcano"', '"hostNetwork": false'))

    [queue] = [each for each in cluster_manifests() if each["kind"] == "Queue"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": []}}

    def named(name: str, base: Manifest = job, **metadata: Any) -> Manifest:
        return live(base, name=name, **metadata)

    found = import_objects(
        [
            named("kept", namespace="n"),
            named("kept", namespace="n"),
            named("of-a-flow", ownerReferences=owner),
            named("of-a-platform", ownerReferences=[{"apiVersion": "example.org/v1", "kind": "Train", "name": "t"}]),
            live(pod, ownerReferences=[{"apiVersion": "example.org/v1", "kind": "Train", "name": "t"}]),
            named("going", deletionTimestamp="2026-01-01T00:00:00Z"),
            named("ours", labels={"gangplan.dev/cluster": "c"}),
            {**named("ended"), "status": {"state": {"phase": "Completed"}}},
            live(plain),
            {**config_map(""), "data": {"a": "b"}},
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "system-a"}},
            {**queue, "metadata": {"name": "default"}, "spec": {"weight": 1, "reclaimable": True, "guarantee": {}}},
            {**queue, "metadata": {"name": "root"}, "spec": {"reclaimable": False}},
        ],
        "c",
    )
    assert sorted(found.files) == ["cluster-specs/c/cluster.yaml", "jobs/n/job-kept.yaml"]
    assert found.notes == (
        "1 left out: jobs that ended",
        "1 left out: jobs that their owner creates, which gangplan does not plan",
        "1 left out: objects that are being deleted",
        "1 left out: objects that gangplan applied already; their repository has them",
        "1 left out: workloads of Kubernetes' own kinds that do not name Volcano as their scheduler",
    )


def test_the_scheduler_configuration_has_types() -> None:
    [document] = imported(config_map(CONF))["cluster-specs/c/scheduler.yaml"]
    assert document["kind"] == "SchedulerConfiguration"
    assert document["spec"]["actions"] == ["allocate", "backfill"]
    assert document["spec"]["tiers"][0]["plugins"][0] == {"name": "gang", "enablePreemptable": False}


@pytest.mark.parametrize(
    "text",
    [
        CONF.replace("false", '"false"'),
        f"{CONF}actoins: x",
        CONF.replace("enablePre", "enabelPre"),
        "tiers: [",
        "tiers: 3",
    ],
)
def test_a_configuration_that_types_would_change_stays_as_it_is(text: str) -> None:
    [document] = imported(config_map(text))["cluster-specs/c/scheduler.yaml"]
    assert document == config_map(text)


def test_objects_are_adopted_only_where_asked() -> None:
    [queue] = [each for each in cluster_manifests() if each["kind"] == "Queue"]
    for adopt, expected in ((False, None), (True, {"gangplan.dev/adopt": "true"})):
        [found] = imported(queue, adopt=adopt)["cluster-specs/c/queues.yaml"]
        assert found["metadata"].get("annotations") == expected


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("docker.io/volcanosh/vc-scheduler:v1.16.1", "1.16.1"),
        ("docker.io/volcanosh/vc-scheduler:v1.9.0", None),
        ("docker.io/volcanosh/vc-scheduler:latest", None),
    ],
)
def test_the_release_is_what_the_schedulers_pods_name(image: str, release: str | None) -> None:
    metadata = {"name": "volcano-scheduler-a", "namespace": "volcano-system"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"image": image}]}}
    [cluster] = imported(pod)["cluster-specs/c/cluster.yaml"]
    assert cluster["spec"].get("volcano") == release


def test_where_there_are_namespace_queues_their_gate_is_on() -> None:
    api = "scheduling.volcano.sh/v1beta1"
    spec = {"parent": "cluster/science"}
    queue = {"apiVersion": api, "kind": "NamespaceQueue", "metadata": {"name": "q", "namespace": "ml"}, "spec": spec}
    [cluster] = imported(queue)["cluster-specs/c/cluster.yaml"]
    assert cluster["spec"] == {"binding": "gated", "volcano": "1.16", "namespaceQueues": True}


def test_no_name_leads_out_of_the_repository() -> None:
    job = job_manifests()[0]
    evil = live(job, name="../../../etc/cron.d/a", namespace="..")
    [path] = [path for path in import_objects([evil], "c").files if path.startswith("jobs/")]
    assert path.split("/") == ["jobs", "-", f"{job['kind'].lower()}--..-..-etc-cron.d-a.yaml"]


def test_objects_whose_names_are_equal_numbers_are_all_written() -> None:
    [queue] = [each for each in cluster_manifests() if each["kind"] == "Queue"]
    names = ["team-1", "team-01", "team-001"]
    found = imported(*(live(queue, name=name) for name in names))
    assert [each["metadata"]["name"] for each in found["cluster-specs/c/queues.yaml"]] == [*reversed(names)]


def test_a_queue_of_another_system_leaves_volcanos_queue_its_name() -> None:
    [queue] = [each for each in cluster_manifests() if each["kind"] == "Queue"]
    name = queue["metadata"]["name"]
    other = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
    found = imported(queue, other)["cluster-specs/c/queues.yaml"]
    assert [each["metadata"]["name"] for each in found] == [name, f"{name}-kai"]
