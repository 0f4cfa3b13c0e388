"""Quotas that only the cluster knows: a plan that they have no room for says so, and no other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.diagnostics.diagnostic import Diagnostic
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from tests.builders.cluster_objects import pod

Object = dict[str, Any]


def job(name: str, pods: int, namespace: str = "team", **pod: Any) -> Object:
    containers = [{"name": "main", "image": "a", "resources": {"limits": {"cpu": 2, "nvidia.com/gpu": 1}}}]
    task = {"name": "w", "replicas": pods, "template": {"spec": {"containers": containers, **pod}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"queue": "default", "tasks": [task]},
    }


def quota(hard: Object, used: Object, namespace: str = "team", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "limits", "namespace": namespace},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used},
    }


def live_pod(of: str, number: int) -> Object:
    gated = {"schedulingGates": [{"name": "gangplan.dev/placement"}], "containers": []}
    labels = {"volcano.sh/task-spec": "w"}
    return pod(f"{of}-w-{number}", job=of, phase="Pending", spec=gated, labels=labels)


def told(*state: Object, jobs: tuple[Object, ...], binding: str = "gated", more: tuple[Object, ...] = ()) -> Any:
    cluster = [
        {"apiVersion": "gangplan.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"}},
        {
            "apiVersion": "gangplan.dev/v1alpha1",
            "kind": "NodePool",
            "metadata": {"name": "n"},
            "spec": {"count": 2, "capacity": {"cpu": 8, "nvidia.com/gpu": 4}},
        },
    ]
    cluster[0]["spec"] = {"binding": binding}
    tree = {"cluster-specs/c/all.yaml": cluster, "jobs/all.yaml": (*jobs, *more)}
    files = {path: "\n---\n".join(map(json.dumps, objects)).encode() for path, objects in tree.items()}
    outcome = compile_repository(Repository(files), state=ClusterState.from_objects(state))
    assert [each for each in outcome.diagnostics if each.severity == "error"] == []
    return [each for each in outcome.diagnostics if each.code == "GP527"]


def brief(found: list[Diagnostic]) -> list[tuple[str, str]]:
    return [(each.severity, each.object) for each in found]


GPUS = "requests.nvidia.com/gpu"


def test_a_job_that_starts_beyond_a_quota_of_the_cluster_is_named_with_the_quota() -> None:
    (found,) = told(quota({GPUS: 4, "pods": 9}, {GPUS: 2, "pods": 2}), jobs=(job("a", 2), job("b", 3), job("c", 1)))
    assert found.message == (
        "ResourceQuota limits allows 4 nvidia.com/gpu in namespace team, of which 2 are used and 2 go to other jobs; "
        "the pods that Job team/b has yet to get ask for 3; no room either for c"
    )
    assert (found.severity, found.position.file) == ("warning", "jobs/all.yaml")


def test_a_quota_of_the_repository_counts_without_a_state_too() -> None:
    """Seen once: two jobs that exceed it together were planned without a finding."""
    new = quota({GPUS: 3}, {})
    del new["status"]
    (found,) = told(jobs=(job("a", 2), job("b", 2)), more=(new,))
    assert "0 are used and 2 go to other jobs; the pods that Job team/b has yet to get ask for 2" in found.message


@pytest.mark.parametrize(
    "quota",
    [
        quota({GPUS: 4, "requests.cpu": "8", "count/pods": 4}, {}),
        quota({GPUS: 1}, {GPUS: 1}, namespace="other"),
        quota({"requests.amd.com/gpu": 0, "services": 0}, {}),
        quota({"pods": 0}, {}, scopes=["BestEffort"]),
        quota({"pods": 0}, {}, scopes=["Terminating"]),
        quota({"pods": 0}, {}, scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}),
        quota({"pods": 0}, {}, scopes=["CrossNamespacePodAffinity"]),
    ],
    ids=["room", "another namespace", "other resources", "best effort", "terminating", "priority", "not judged"],
)
def test_a_quota_with_room_or_of_other_pods_says_nothing(quota: Object) -> None:
    assert told(quota, jobs=(job("a", 2), job("b", 2))) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"scopes": ["NotBestEffort", "NotTerminating"]},
        {
            "scopeSelector": {
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]},
                    {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["other"]},
                ]
            }
        },
    ],
)
def test_scopes_that_select_the_pods_limit_them(spec: Object) -> None:
    critical = job("a", 2, priorityClassName="system-node-critical")
    assert brief(told(quota({"pods": 1}, {}, **spec), jobs=(critical,))) == [("warning", "Job team/a")]


def test_pods_that_are_there_are_used_already() -> None:
    full = quota({"pods": 2}, {"pods": 2})
    assert told(full, live_pod("a", 0), live_pod("a", 1), jobs=(job("a", 2),)) == []
    assert brief(told(full, live_pod("a", 0), jobs=(job("a", 2),))) == [("warning", "Job team/a")]


def test_a_pod_that_has_ended_well_does_not_come_again() -> None:
    full, done = quota({"pods": 1}, {"pods": 1}), {**live_pod("a", 1), "status": {"phase": "Succeeded"}}
    parts = {"totalPartitions": 2, "partitionSize": 1, "networkTopology": {"mode": "soft"}}
    divided = job("a", 2)
    divided["spec"]["tasks"][0]["partitionPolicy"] = parts
    for each in (job("a", 2), divided):
        assert told(full, live_pod("a", 0), done, jobs=(each,)) == []
        assert told(full, live_pod("a", 0), jobs=(each,))


def test_pods_of_jobs_that_wait_behind_gates_count_as_well() -> None:
    jobs, limits = (job("a", 8), job("b", 2)), quota({"pods": 9}, {})
    assert brief(told(limits, jobs=jobs)) == [("info", "Job team/b")]
    assert told(limits, jobs=jobs, binding="static") == [], "the job is withheld"


def test_the_repository_s_word_on_a_quota_goes_before_what_it_is_now() -> None:
    raised = quota({"pods": 4}, {})
    del raised["status"]
    assert told(quota({"pods": 2}, {"pods": 2}), jobs=(job("a", 2),), more=(raised,)) == []
    assert brief(told(quota({"pods": 2}, {"pods": 2}), jobs=(job("a", 3),), more=(raised,)))
