"""One snapshot of the cluster, and what of it matters to a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.emit.manifest import json_digest
from compiler.kubernetes import VGPU_ASSIGNMENT_ANNOTATION
from compiler.volcano.shared_devices import VGPU_MEMORY
from reconciler.cluster.objects import HOSTNAME_LABEL, Object, Ref, annotations_of, labels_of, ref_of, uid_of
from reconciler.compile_child import Snapshot
from reconciler.gates import NodeIndex, PlannedGang, assigned_node, has_ended, pods_by_job, role_of

STATE_KINDS = (
    ("v1", "Node"),
    ("v1", "Pod"),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    ("scheduling.volcano.sh/v1beta1", "Queue"),
    ("topology.volcano.sh/v1alpha1", "HyperNode"),
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("kubeflow.org/v1", "PyTorchJob"),
    ("batch/v1", "Job"),
    ("policy/v1", "PodDisruptionBudget"),
    ("nodeinfo.volcano.sh/v1alpha1", "Numatopology"),
)
"""What a state file holds; watched whole, since foreign pods and jobs count as well."""

_STATE_GROUPS = frozenset(Ref(api, kind, "", "").group_kind for api, kind in STATE_KINDS)


@dataclass(frozen=True)
class Observation:
    """objects: Ref.key -> object, of all kinds that are watched; they must not be changed. problems: a sentence for
    each kind that cannot be read.

    kinds: group kinds that were read well. suspects: nodes on which a pod could not be bound lately.
    """

    objects: Mapping[str, Object]
    readable_kinds: frozenset[str]
    problems: tuple[str, ...] = ()
    suspect_nodes: frozenset[str] = frozenset()

    def objects_of_kind(self, kind: str) -> list[Object]:
        """By group kind, e.g. "Pod" or "Job.batch.volcano.sh", in the order of namespace and name."""
        return [thing for key, thing in sorted(self.objects.items()) if key.startswith(f"{kind}/")]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a plan rests on, node by node, so that a change tells which gangs it touches. over: jobs that have finished."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    finished_jobs: frozenset[str] = frozenset()


def node_index(nodes: Iterable[Object], leaves: Mapping[str, str]) -> NodeIndex:
    """Nodes whose hostname label is missing or shared with another cannot be named by a selector and are left out."""
    by_host: dict[str, list[str]] = {}
    for node in nodes:
        if host := labels_of(node).get(HOSTNAME_LABEL):
            by_host.setdefault(host, []).append(str(node["metadata"]["name"]))
    unique = {host: names[0] for host, names in by_host.items() if len(names) == 1}
    return NodeIndex({name: host for host, name in unique.items()}, unique, leaves)


def planned_gangs(snapshot: Snapshot) -> dict[str, PlannedGang]:
    """Ref.key of the job -> the gang as planned."""
    later = {ref_of(m.object).key: _dependent_roles(m.object) for m in snapshot.manifests if m.run_digest}
    found = {}
    for gang in snapshot.plan.get("gangs", ()):
        job = Ref(gang["apiVersion"], gang["kind"], gang["namespace"], gang["name"])
        reasons = tuple(f"{reason['code']}: {reason['message']}" for reason in gang["reasons"])
        taken, cards = tuple(gang["evictedFor"]), _device_numbers(gang.get("cells", ()))
        found[job.key] = PlannedGang(
            job, gang["decision"], gang["pods"], reasons, later.get(job.key, frozenset()), taken, cards
        )
    return found


def _device_numbers(slot_uses: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, list[int]]]:
    """Role -> node -> the card of each new pod that takes a share of a virtual GPU, the highest number first."""
    found: dict[str, dict[str, list[int]]] = {}
    for part in sorted(slot_uses, key=lambda part: -int(part["cell"])):
        if part["division"] == VGPU_MEMORY:
            found.setdefault(part["role"], {}).setdefault(part["node"], []).extend([part["cell"]] * part["pods"])
    return found


def _dependent_roles(job: Object) -> frozenset[str]:
    """Roles of a Volcano Job that its controller creates only once others run."""
    return frozenset(
        task["name"] for task in job["spec"].get("tasks") or () if (task.get("dependsOn") or {}).get("name")
    )


def fingerprint_of(observation: Observation, snapshot: Snapshot, finished_jobs: frozenset[str]) -> Fingerprint:
    """What the plan of `snapshot` rests on in `seen`. Pods that are where the plan wants them are no news and leave no
    trace, unless what the cluster says of a node's cells was behind its pods: then that counts as well."""
    planned = planned_gangs(snapshot)
    nodes = node_index(observation.objects_of_kind("Node"), snapshot.leaves)
    found: dict[str, list[Any]] = {
        str(node["metadata"]["name"]): [_node_attributes(node)] for node in observation.objects_of_kind("Node")
    }
    for topology in observation.objects_of_kind("Numatopology.nodeinfo.volcano.sh"):
        if (name := str(topology["metadata"]["name"])) in found:
            found[name].append(_numa_layout(topology))
            if name in snapshot.nodes_behind:
                found[name].append((topology.get("spec") or {}).get("numares"))
    for suspect in observation.suspect_nodes & found.keys():
        found[suspect].append("suspect")
    jobs = {key: thing for key, thing in observation.objects.items() if key in planned}
    pods = observation.objects_of_kind("Pod")
    expected = _expected_pods(pods_by_job(pods, jobs)[0], planned, nodes)
    for pod in pods:
        node = assigned_node(pod, nodes)
        if (
            node in found
            and node in snapshot.nodes_behind
            and (devices := annotations_of(pod).get(VGPU_ASSIGNMENT_ANNOTATION))
        ):
            found[node].append(devices)
        if (
            node in found
            and uid_of(pod) not in expected
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ):
            found[node].append(uid_of(pod))
    return Fingerprint({node: json_digest(parts) for node, parts in found.items()}, finished_jobs)


def _expected_pods(
    by_job: Mapping[str, Sequence[Object]], planned: Mapping[str, PlannedGang], nodes: NodeIndex
) -> set[str]:
    """uids of pods that stand at a place the plan gave to their role, and not more of them than it gave."""
    expected: set[str] = set()
    for key, pods in by_job.items():
        gang = planned[key]
        left = {(role, node): count for role, counts in gang.pods.items() for node, count in counts.items()}
        for pod in sorted(pods, key=uid_of):
            spot = role_of(pod, tuple(gang.pods)) or "", assigned_node(pod, nodes) or ""
            if not has_ended(pod) and left.get(spot, 0) > 0:
                left[spot] -= 1
                expected.add(uid_of(pod))
    return expected


def _node_attributes(node: Object) -> list[Any]:
    """What decides whether pods may go to a node; heartbeats are left out."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    ready = [c.get("status") for c in status.get("conditions") or () if c.get("type") == "Ready"]
    return [
        uid_of(node),
        labels_of(node),
        spec.get("taints"),
        spec.get("unschedulable"),
        status.get("allocatable"),
        ready,
    ]


def _numa_layout(topology: Object) -> list[Any]:
    """Which CPUs and devices are in which NUMA cell. What is idle of them changes with every pod, and pods count by
    themselves."""
    spec = topology.get("spec") or {}
    return [spec.get("policies"), spec.get("cpuDetail"), spec.get("gpuDetail"), spec.get("resReserved")]


def state_objects(observation: Observation, stale_jobs: frozenset[str] = frozenset()) -> list[Object]:
    """The state for the compiler: objects of the state's kinds, without those in `stale` (finished jobs whose new run
    is to be planned)."""
    found = []
    for key, thing in sorted(observation.objects.items()):
        kind = key.partition("/")[0]
        if kind not in _STATE_GROUPS or key in stale_jobs:
            continue
        if kind == "Node" and thing["metadata"]["name"] in observation.suspect_nodes:
            thing = {**thing, "spec": {**(thing.get("spec") or {}), "unschedulable": True}}
        found.append(without_server_fields(thing))
    return found


def without_server_fields(thing: Object) -> Object:
    """As people expect to see it in a file: without the server's bookkeeping."""
    return {
        **thing,
        "metadata": {
            k: v for k, v in thing["metadata"].items() if k not in ("managedFields", "generation", "selfLink")
        },
    }
