"""Fewer pods are told with every field that has to follow, by whatever it is called in the kind; typed, the job
starts."""

from __future__ import annotations

import pytest

from compiler.explain.statements import CodedMessage
from tests.scenarios.test_reasons_to_act_on import compiled, decided, repaired
from tests.scenarios.test_small_repositories import POD

NAMED = "metadata: {name: asks, namespace: team"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
GANG = f"{NAMED}, annotations: {{{MIN_MEMBER}: 'LEAST'}}}}"
MEMBER = "\n".join(
    (
        "---",
        "apiVersion: v1",
        "kind: Pod",
        "metadata: {name: asks-NUMBER, namespace: team, labels: {volcano.sh/task-spec: w},",
        "  annotations: {scheduling.k8s.io/group-name: asks}}",
        POD.removeprefix("{").removesuffix("}"),
        "",
    )
)

WRITTEN = {
    "Job": (
        f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n{NAMED}}}\n"
        "spec: {minAvailable: LEAST, minSuccess: LEAST, schedulerName: volcano,\n"
        f"  tasks: [{{name: w, replicas: PODS, minAvailable: LEAST, template: {POD}}}]}}\n"
    ),
    "batch Job": (
        f"apiVersion: batch/v1\nkind: Job\n{GANG}\nspec: {{parallelism: PODS, completions: 6, template: {POD}}}\n"
    ),
    "RayCluster": (
        f"apiVersion: ray.io/v1\nkind: RayCluster\n{NAMED}, labels: {{ray.io/scheduler-name: volcano}}}}\n"
        "spec:\n  headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: c, image: i}]}}}\n"
        "  workerGroupSpecs:\n  - {groupName: w, replicas: PODS, minReplicas: LEAST, maxReplicas: 6,\n"
        f"     rayStartParams: {{}}, template: {POD}}}\n"
    ),
    "PyTorchJob": (
        f"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n{NAMED}}}\n"
        "spec:\n  elasticPolicy: {minReplicas: LEAST, maxReplicas: 6}\n"
        f"  pytorchReplicaSpecs: {{Worker: {{replicas: PODS, template: {POD}}}}}\n"
    ),
    "Deployment": (
        f"apiVersion: apps/v1\nkind: Deployment\n{GANG}\nspec: {{replicas: 6, selector: {{matchLabels: {{a: b}}}},\n"
        f"  template: {POD.replace('{spec', '{metadata: {labels: {a: b}}, spec').replace('Never', 'Always')}}}\n"
    ),
    "PodGroup": (
        f"apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n{NAMED}}}\n"
        "spec: {minMember: LEAST, minTaskMember: {w: LEAST}}\nMEMBERS"
    ),
}
TOLD = {
    "Job": "4 pods of role w instead of 6, with minAvailable: 4 of the role, minAvailable: 4, minSuccess: 4",
    "batch Job": f'4 pods of role pods instead of 6, with {MIN_MEMBER}: "4"',
    "RayCluster": "4 pods of role w instead of 6, with minReplicas: 4",
    "PyTorchJob": "4 pods of role Worker instead of 6, with elasticPolicy.minReplicas: 4",
    "Deployment": f'4 pods at least instead of 6: {MIN_MEMBER}: "4"',
    "PodGroup": "4 pods of role w instead of 6, with minTaskMember.w: 4, minMember: 4",
}


def pool(count: int) -> str:
    """Nodes with cpu and memory in addition to the GPUs, for what operators add to the pods."""
    spec = f"{{count: {count}, capacity: {{cpu: 8, memory: 16Gi, nvidia.com/gpu: 8}}}}"
    return f"apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: h100}}\nspec: {spec}\n"


def fewer_pods(*documents: str) -> CodedMessage:
    (repair,) = (r for r in decided(compiled(*documents)).repairs if r.code == "GR105")
    return repair


def written(kind: str, pods: int) -> str:
    members = "".join(MEMBER.replace("NUMBER", str(number)) for number in range(pods))
    return WRITTEN[kind].replace("MEMBERS", members).replace("PODS", str(pods)).replace("LEAST", str(pods))


@pytest.mark.parametrize("kind", WRITTEN)
def test_fewer_pods_are_told_with_all_that_goes_with_them_and_typed_they_start(kind: str) -> None:
    nodes = pool(4)
    repair = fewer_pods(nodes, written(kind, 6))
    assert repair.message == TOLD[kind]
    if kind == "PodGroup":  # a pod is a document of its own, so that no field says their number
        assert decided(compiled(nodes, written(kind, 4))).action == "start"
    else:
        assert repaired(nodes, written(kind, 6), code="GR105").action == "start"


def test_an_edit_is_named_by_its_whole_path_as_it_is_to_be_written() -> None:
    repair = fewer_pods(pool(4), written("Deployment", 6))
    assert repair.facts["edits"] == (f"metadata.annotations['{MIN_MEMBER}']: \"4\"",)


def test_pods_of_several_hosts_are_counted_by_hosts_where_the_kind_does() -> None:
    groups = written("RayCluster", 3).replace("groupName: w", "groupName: w, numOfHosts: 2")
    repair = fewer_pods(pool(5), groups)
    assert repair.message == "4 pods of role w instead of 6, with minReplicas: 2, replicas: 2"
    assert repaired(pool(5), groups, code="GR105").action == "start"


def test_an_autoscaled_group_is_told_its_least_number() -> None:
    text = written("RayCluster", 6).replace("spec:\n", "spec:\n  enableInTreeAutoscaling: true\n", 1)
    elastic = text.replace("minReplicas: 6", "minReplicas: 5")
    repair = fewer_pods(pool(4), elastic)
    assert repair.message == "at least 4 pods of role w instead of 5: minReplicas: 4"
    assert repaired(pool(4), elastic, code="GR105").action == "start"
