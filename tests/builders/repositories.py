"""Small repositories as text, and what compiling them gives."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.cluster_state.cluster_state import ClusterState
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.specs.gang_spec import JobKey
from tests.builders.declared import Object, yaml_of

CLUSTER = "apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: t}\nspec: {binding: BINDING}\n"
POOL = """\
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata: {name: n}
spec: {count: 4, capacity: {cpu: 8}, topology: [{name: sn, size: 2}]}
"""
CONTAINER = "{containers: [{name: main, image: a, resources: {requests: {cpu: 4}}}]}"
JOB = f"""\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: NAME}}
spec:
  tasks:
  - name: worker
    replicas: 2
    template: {{spec: {CONTAINER}}}
"""
FILES = {
    "cluster-specs/t/all.yaml": "---\n".join((CLUSTER.replace("BINDING", "gated"), POOL)).encode(),
    "jobs/a.yaml": JOB.replace("NAME", "a").encode(),
}

SCHEDULER = (
    "apiVersion: gangplan.dev/v1alpha1\nkind: SchedulerConfiguration\n"
    "metadata: {name: volcano-scheduler-configmap}\nspec:\n"
    "  actions: [enqueue, allocate]\n  tiers: [{plugins: [{name: gang}, {name: predicates}PLUGINS]}]\n"
)
AWARE = ", {name: numa-aware}"
PODS = (
    "spec: {schedulerName: volcano, containers: [{name: main, image: a, resources: {limits: {nvidia.com/gpu: GPUS}}}]}"
)


def pod_group(minimum: int, policies: str) -> str:
    return (
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: ring, namespace: t}\n"
        f"spec: {{minMember: {minimum}, subGroupPolicy: [{policies}]}}\n"
    )


def subgroup_policy(
    size: int, wanted: int, topology: str = "networkTopology: {mode: hard, highestTierAllowed: 1}", name: str = "s"
) -> str:
    return f"{{name: {name}, subGroupSize: {size}, minSubGroups: {wanted}, matchLabelKeys: [{name}], {topology}}}"


def group_pods(value: str, number: int, gpus: int = 1, key: str = "s", role: str = "") -> list[str]:
    task = f", volcano.sh/task-spec: {role}" if role else ""
    metadata = f"namespace: t, labels: {{{key}: {value}}}, annotations: {{scheduling.k8s.io/group-name: ring{task}}}"
    body = PODS.replace("GPUS", str(gpus))
    return [
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {value}{role}{i}, {metadata}}}\n{body}\n" for i in range(number)
    ]


def compile_pod_group(supernodes: int, gpus: int, *documents: str, state: ClusterState | None = None) -> Outcome:
    """Each supernode one node."""
    pool = (
        f"apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: g}}\nspec:\n  count: {supernodes}\n"
        f"  capacity: {{cpu: 64, nvidia.com/gpu: {gpus}}}\n  topology: [{{name: sn, size: 1}}]\n"
    )
    outcome = compile_repository(
        Repository({"cluster-specs/c/pool.yaml": pool.encode(), "jobs/ring.yaml": "---\n".join(documents).encode()}),
        state=state,
    )
    assert [d for d in outcome.diagnostics if d.severity == "error"] == []
    return outcome


def repository(*objects: Object | str) -> Repository:
    """The objects of one cluster, in one file."""
    return Repository({"cluster-specs/c/all.yaml": yaml_of(*objects).encode()})


def compiled(*objects: Object | str, live: Sequence[Object] = (), finished: Sequence[JobKey] = ()) -> Outcome:
    """What becomes of a repository without errors. live, finished: of the cluster's state."""
    state = ClusterState.from_objects(live, finished) if live or finished else None
    outcome = compile_repository(repository(*objects), state=state)
    assert [each for each in outcome.diagnostics if each.severity == "error"] == []
    return outcome
