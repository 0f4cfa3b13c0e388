"""Small repositories as text, and what compiling them gives."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.cluster_state.cluster_state import ClusterState
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.specs.gang_spec import JobKey
from tests.builders.beside import beside
from tests.builders.declared import GPU, Object, declared, node_pool, pod_spec, yaml_of

CLUSTER = "apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: t}\nspec: {binding: BINDING}\n"
POOL = """\
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata: {name: n}
spec: {count: 4, capacity: {cpu: 8}, topology: [{name: sn, size: 2}]}
"""
CONTAINER = "{containers: [{name: main, image: a, resources: {requests: {cpu: 4}}}]}"
JOB = beside(__file__)["job"]
FILES = {
    "cluster-specs/t/all.yaml": "---\n".join((CLUSTER.replace("BINDING", "gated"), POOL)).encode(),
    "jobs/a.yaml": JOB.replace("NAME", "a").encode(),
}


def pod_group(minimum: int, *policies: Object) -> Object:
    """The PodGroup ring of the pods of `group_pods`."""
    return declared("PodGroup", "ring", {"minMember": minimum, "subGroupPolicy": list(policies)}, namespace="t")


def subgroup_policy(size: int, wanted: int, mode: str = "hard") -> Object:
    topology = {"mode": "hard", "highestTierAllowed": 1} if mode == "hard" else {"mode": mode}
    counts = {"subGroupSize": size, "minSubGroups": wanted}
    return {"name": "s", **counts, "matchLabelKeys": ["s"], "networkTopology": topology}


def group_pods(value: str, number: int, gpus: int = 1, role: str = "") -> list[Object]:
    """Pods of the subgroup with this label."""
    notes = {"scheduling.k8s.io/group-name": "ring", **({"volcano.sh/task-spec": role} if role else {})}
    spec = pod_spec({GPU: gpus}, schedulerName="volcano")
    about: Object = {"namespace": "t", "labels": {"s": value}, "annotations": notes}
    return [declared("Pod", f"{value}{role}{i}", spec, **about) for i in range(number)]


def compile_pod_group(supernodes: int, gpus: int, *objects: Object, live: Sequence[Object] = ()) -> Outcome:
    """Each supernode one node."""
    return compiled(node_pool(supernodes, gpus, "g", topology=[{"name": "sn", "size": 1}]), *objects, live=live)


def repository(*objects: Object | str) -> Repository:
    """The objects of one cluster, in one file."""
    return Repository({"cluster-specs/c/all.yaml": yaml_of(*objects).encode()})


def compiled(*objects: Object | str, live: Sequence[Object] = (), finished: Sequence[JobKey] = ()) -> Outcome:
    """What becomes of a repository without errors. live, finished: of the cluster's state."""
    state = ClusterState.from_objects(live, finished) if live or finished else None
    outcome = compile_repository(repository(*objects), state=state)
    assert [each for each in outcome.diagnostics if each.severity == "error"] == []
    return outcome
