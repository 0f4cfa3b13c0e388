"""In which queue the pods of a run count whose job now names another."""

from __future__ import annotations

import pytest

from compiler.kubernetes import GROUP_NAME_ANNOTATION, QUEUE_NAME_ANNOTATION
from tests.builders import declared, repositories
from tests.builders.declared import GPU, Object, pod_spec

POD_SPEC = pod_spec({GPU: 8}, schedulerName="volcano")


def live_objects(notes: Object, *more: Object) -> list[Object]:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "runs", "uid": "u", "controller": True}
    metadata: Object = {"annotations": notes, "ownerReferences": [owner], "labels": {"volcano.sh/task-spec": "w"}}
    pod = declared.declared("Pod", "runs-w-0", {**POD_SPEC, "nodeName": "n-0"}, namespace="team", **metadata)
    return [{**pod, "status": {"phase": "Running"}}, *more]


GROUP = declared.declared("PodGroup", "runs-u", {"minMember": 1, "queue": "old"}, namespace="team")


@pytest.mark.parametrize(
    "live",
    [
        live_objects({GROUP_NAME_ANNOTATION: "runs-u", QUEUE_NAME_ANNOTATION: "new"}, GROUP),
        live_objects({QUEUE_NAME_ANNOTATION: "old"}),
    ],
    ids=["its PodGroup", "its pods"],
)
def test_a_run_counts_in_the_queue_of_its_pod_group(live: list[Object]) -> None:
    queues = [declared.queue(name, capability={GPU: 8}, deserved={GPU: 8}) for name in ("old", "new")]
    jobs = [
        declared.job(name, pod=POD_SPEC, queue=queue)
        for name, queue in (("runs", "new"), ("in-old", "old"), ("in-new", "new"))
    ]
    scheduler = declared.scheduler(("priority", "gang", "predicates", "capacity"))
    outcome = repositories.compiled(declared.node_pool(3, 8), scheduler, *queues, *jobs, live=live)
    found = {decision.name: decision.action for decision in outcome.decisions}
    assert found == {"team/runs": "keep", "team/in-old": "wait", "team/in-new": "start"}
