"""What each job kind says, as a gang: minima, queues, priorities, subgroups, requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.specs.gang_spec import GangSpec, SubgroupSpec, TopologySpec
from compiler.specs.pod_spec import Expression, NodeSelectorTerm, Toleration

POD = "{spec: {schedulerName: volcano, containers: [{name: main, image: a, resources: {requests: {cpu: 1}}}]}}"
CASES: dict[str, Any] = yaml.safe_load((Path(__file__).parents[3] / "fixtures" / "gangs.yaml").read_text())
GPU_POD = POD.replace("requests: {cpu: 1}", "limits: {metax-tech.com/gpu: 8}")


def gang(text: str, dates: dict[str, int] | None = None) -> GangSpec:
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: ml}\nspec: {}\n"
    specs = read_specs(
        Repository({"cluster-specs/c/q.yaml": queue.encode(), "jobs/a.yaml": text.encode()}, dates or {})
    )
    assert [d for d in specs.diagnostics if d.severity == "error"] == []
    (found,) = specs.gangs
    return found


def volcano(spec: str, annotations: str = "{}") -> GangSpec:
    return gang(
        f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
        f"metadata: {{name: j, annotations: {annotations}}}\nspec: {spec}\n"
    )


def minima(found: GangSpec) -> tuple[int, dict[str, tuple[int, int]]]:
    return found.minimum, {role.name: (role.minimum, role.replicas) for role in found.roles}


def written(expected: Any) -> tuple[int, dict[str, tuple[int, int]]]:
    return expected[0], {role: (least, pods) for role, (least, pods) in expected[1].items()}


@pytest.mark.parametrize(("what", "spec", "expected"), CASES["volcano"])
def test_minima_of_a_volcano_job_follow_admission_and_the_gang_plugin(what: str, spec: Any, expected: Any) -> None:
    assert minima(volcano(json.dumps(spec))) == written(expected)


def test_a_volcano_job_names_queue_priority_topology_and_times() -> None:
    head = "queue: ml, priorityClassName: system-node-critical, networkTopology: {highestTierAllowed: 2}"
    found = volcano(
        f"{{{head}, tasks: [{{replicas: 1, template: {POD}}}]}}",
        '{gangplan.dev/submitted-at: "2026-01-01T00:00:00Z", gangplan.dev/expected-duration: 1h30m}',
    )
    assert (found.queue, found.priority_class, found.topology) == (
        "ml",
        "system-node-critical",
        TopologySpec("hard", 2),
    )
    assert (found.times.submitted_at, found.times.expected_duration) == (1767225600, 5400)
    assert found.document.position(*found.field_paths["queue"]).line == 4
    assert found.roles[0].template_path == ("spec", "tasks", 0, "template")


def test_another_scheduler_s_job_is_not_planned() -> None:
    assert not volcano(f"{{schedulerName: other, tasks: [{{replicas: 1, template: {POD}}}]}}").scheduling.schedulable
    assert volcano(f"{{tasks: [{{replicas: 1, template: {POD}}}]}}").scheduling.schedulable


def test_partitions_become_subgroups_and_give_the_role_its_minimum() -> None:
    policy = (
        "{totalPartitions: 4, partitionSize: 2, minPartitions: 3, networkTopology: {mode: hard, highestTierAllowed: 1}}"
    )
    found = volcano(f"{{tasks: [{{name: w, replicas: 8, template: {POD}, partitionPolicy: {policy}}}]}}")
    assert minima(found) == (6, {"w": (6, 8)})
    assert found.subgroups == (
        SubgroupSpec("w", ("w",), 2, 3, TopologySpec("hard", 1), ("spec", "tasks", 0, "partitionPolicy")),
    )


def metax(value: str, atomic: str = "", replicas: int = 8) -> GangSpec:
    extra = f", metax-tech.com/atomic-gpu-group-size: {atomic}" if atomic else ""
    annotated = "{metadata: {annotations: {metax-tech.com/gpu-group-size: " + value + extra + "}}, " + GPU_POD[1:]
    return volcano(
        f"{{tasks: [{{name: master, replicas: 1, template: {annotated}}}, "
        f"{{name: worker, replicas: {replicas - 1}, template: {GPU_POD}}}]}}"
    )


@pytest.mark.parametrize("value", ["32", '"32"'])
def test_a_metax_group_alone_is_hard_inside_one_supernode_over_all_gpu_roles(value: str) -> None:
    path = ("spec", "tasks", 0, "template", "metadata", "annotations", "metax-tech.com/gpu-group-size")
    assert metax(value).subgroups == (
        SubgroupSpec("gpu-group", ("master", "worker"), 4, 2, TopologySpec("hard", 1), path),
    )


def test_a_metax_atomic_group_is_hard_and_its_unit_soft() -> None:
    unit, atomic = metax("32", "16").subgroups
    assert (unit.size, unit.minimum, unit.topology.mode) == (4, 2, "soft")
    assert (atomic.size, atomic.minimum, atomic.topology) == (2, 4, TopologySpec("hard", 1))
    assert [part.topology.mode for part in metax("32", "32").subgroups] == ["hard"]


PYTORCH = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: t}\nspec: "


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("{}", (4, {"Master": (1, 1), "Worker": (3, 3)})),
        ("{schedulingPolicy: {minAvailable: 2}}", (2, {"Master": (0, 1), "Worker": (0, 3)})),
    ],
)
def test_a_pytorch_job_needs_all_its_replicas_unless_its_policy_says_fewer(policy: str, expected: object) -> None:
    replicas = f"{{Master: {{template: {POD}}}, Worker: {{replicas: 3, template: {POD}}}}}"
    assert minima(gang(f"{PYTORCH}{{runPolicy: {policy}, pytorchReplicaSpecs: {replicas}}}\n")) == expected


def test_a_pytorch_job_s_policy_names_queue_and_priority() -> None:
    policy = "{suspend: true, schedulingPolicy: {queue: ml, priorityClass: system-node-critical}}"
    found = gang(
        f"{PYTORCH}{{runPolicy: {policy}, pytorchReplicaSpecs: {{Worker: {{replicas: 1, template: {POD}}}}}}}\n"
    )
    assert (found.queue, found.priority_class, found.scheduling.schedulable) == ("ml", "system-node-critical", False)
    assert found.roles[0].path == ("spec", "pytorchReplicaSpecs", "Worker")


def batch(metadata: str, spec: str, template: str = POD) -> GangSpec:
    template = template.replace("spec: {", "spec: {restartPolicy: Never, ")
    return gang(
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: b{metadata}}}\nspec: {{{spec}template: {template}}}\n"
    )


@pytest.mark.parametrize(("what", "of_job", "spec", "of_pods", "expected"), CASES["batch"])
def test_a_plain_job_starts_one_by_one_unless_it_says_otherwise(
    what: str, of_job: Any, spec: Any, of_pods: Any, expected: Any
) -> None:
    template = f"{{metadata: {{annotations: {json.dumps(of_pods)}}}, {POD[1:]}"
    fields = "".join(f"{key}: {value}, " for key, value in spec.items())
    found = batch(f", annotations: {json.dumps(of_job)}", fields, template)
    assert minima(found) == written(expected)


def test_a_plain_job_has_pods_that_run_after_others_up_to_its_completions() -> None:
    specs = ("parallelism: 4, completions: 6, ", "parallelism: 8, completions: 3, ", "parallelism: 4, ")
    assert [batch("", spec).roles[0].later_pods for spec in specs] == [2, 0, 0]


def test_a_plain_job_s_queue_is_an_annotation() -> None:
    assert batch("", "").queue == "default"
    assert batch(", annotations: {scheduling.volcano.sh/queue-name: ml}", "").queue == "ml"
    assert batch("", "", "{metadata: {annotations: {scheduling.volcano.sh/queue-name: ml}}, " + POD[1:]).queue == "ml"
    assert not batch("", "suspend: true, ").scheduling.schedulable


def test_bare_pods_and_their_group_are_one_gang() -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {0}, annotations: "
        "{{scheduling.k8s.io/group-name: ring, volcano.sh/task-spec: {1}}}}}\n"
    )
    body = POD[1:-1].replace("spec:", "spec:", 1)
    group = (
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
        "metadata: {name: ring}\nspec: {queue: ml, minMember: 3, minTaskMember: {w: 2}}\n"
    )
    text = "---\n".join(
        [group, *(pod.format(name, role) + body + "\n" for name, role in (("a", "ps"), ("b", "w"), ("c", "w")))]
    )
    found = gang(text)
    assert (found.queue, *minima(found)) == ("ml", 3, {"ps": (0, 1), "w": (2, 2)})
    assert [[document.name for document in role.pod_documents] for role in found.roles] == [["a"], ["b", "c"]]


def test_subgroups_of_a_pod_group_are_the_pods_that_share_labels() -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {0}, labels: {{stage: '{1}', app: {2}}}, "
        "annotations: {{scheduling.k8s.io/group-name: ring}}}}\n"
        + POD[1:-1].replace("{", "{{").replace("}", "}}")
        + "\n"
    )
    group = (
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
        "metadata: {name: ring}\nspec:\n  minMember: 4\n  subGroupPolicy:\n"
        "  - {name: stage, subGroupSize: 2, minSubGroups: 1, matchLabelKeys: "
        "[stage], labelSelector: {matchLabels: {app: train}}, "
        "networkTopology: {mode: hard, highestTierAllowed: 1}}\n"
    )
    rows = (
        ("a", "1", "train"),
        ("b", "0", "train"),
        ("c", "1", "train"),
        ("d", "0", "train"),
        ("e", "", "train"),
        ("f", "0", "log"),
    )
    found = gang("---\n".join([group, *(pod.format(*row) for row in rows)]))
    parts = [
        (part.name, part.roles, part.size, part.ready_pods, part.min_ready_subgroups, part.topology.mode)
        for part in found.subgroups
    ]
    assert parts == [("stage/0", ("pods-1",), 2, 2, 1, "hard"), ("stage/1", ("pods",), 2, 2, 1, "hard")]
    pods = {role.name: [document.name for document in role.pod_documents] for role in found.roles}
    assert pods == {"pods": ["a", "c"], "pods-1": ["b", "d"], "pods-2": ["e", "f"]}


def requests(pod: str) -> dict[str, int]:
    return dict(volcano(f"{{tasks: [{{replicas: 1, template: {{spec: {pod}}}}}]}}").roles[0].pod.requests)


@pytest.mark.parametrize(("what", "pod", "expected"), CASES["requests"])
def test_requests_of_a_pod_follow_kubernetes(what: str, pod: Any, expected: dict[str, int]) -> None:
    assert requests(json.dumps(pod)) == {**expected, "pods": 1}


def test_where_a_pod_may_go() -> None:
    affinity = (
        "{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ["
        "{matchExpressions: [{key: gen, operator: Gt, values: ['3']}], "
        "matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}"
    )
    tolerations = "[{key: gpu, operator: Exists, effect: NoSchedule}, {key: a, value: b}]"
    rules = f"nodeSelector: {{zone: a}}, affinity: {affinity}, tolerations: {tolerations}"
    pod = f"{{{rules}, containers: [{{name: c, image: a}}]}}"
    found = volcano(f"{{tasks: [{{replicas: 1, template: {{spec: {pod}}}}}]}}").roles[0].pod
    assert found.node_selector == {"zone": "a"}
    assert found.node_affinity == (
        NodeSelectorTerm((Expression("gen", "Gt", ("3",)),), (Expression("metadata.name", "In", ("n1",)),)),
    )
    assert found.tolerations == (Toleration("gpu", "Exists", "", "NoSchedule"), Toleration("a", "Equal", "b", ""))
