"""Which jobs may be kept out of the cluster while their queue's share cannot take them."""

from __future__ import annotations

import json

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository

HEAD = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}


def volcano_job(name: str, queue: str) -> dict[str, object]:
    pod = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}
    spec = {"queue": queue, "minAvailable": 1, "tasks": [{"name": "w", "replicas": 1, "template": pod}]}
    return {**HEAD, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(
    ("queues", "live", "expected"),
    [
        (["a", "b"], [], [True, True]),
        (["a", "b"], ["one"], [False, True]),
        (["a", "a"], [], [False, False]),  # one queue shares with none
    ],
)
def test_only_a_job_that_is_not_there_may_be_held(queues: list[str], live: list[str], expected: list[bool]) -> None:
    jobs = [volcano_job(name, queue) for name, queue in zip(("one", "two"), queues, strict=True)]
    things = [
        {"apiVersion": "gangplan.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "t"}, "spec": {}},
        *(
            {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": q}, "spec": {}}
            for q in "ab"
        ),
    ]
    files = {f"cluster-specs/t/{n}.yaml": json.dumps(each).encode() for n, each in enumerate(things)}
    files |= {f"jobs/{n}.yaml": json.dumps(each).encode() for n, each in enumerate(jobs)}
    there = ClusterState.from_objects(each for each in jobs if each["metadata"]["name"] in live)  # type: ignore[index]
    problem = compile_repository(Repository(files), state=there).problem
    assert problem is not None
    assert [gang.entry.may_be_held for gang in problem.gangs] == expected
