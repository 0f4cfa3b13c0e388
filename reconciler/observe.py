"""One snapshot of the cluster, and what of it matters to a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.volcano.shared_devices import VGPU_ASSIGNMENT, VGPU_MEMORY
from reconciler.compile_child import Snapshot
from reconciler.gates import Gang, Nodes, over, place, pods_by_job, role_of
from reconciler.objects import HOSTNAME, Object, Ref, annotations_of, digest, labels_of, uid

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
class Seen:
    """objects: Ref.key -> object, of all kinds that are watched; they must not be changed. problems: a sentence for
    each kind that cannot be read.

    kinds: group kinds that were read well. suspects: nodes on which a pod could not be bound lately.
    """

    objects: Mapping[str, Object]
    kinds: frozenset[str]
    problems: tuple[str, ...] = ()
    suspects: frozenset[str] = frozenset()

    def of(self, kind: str) -> list[Object]:
        """By group kind, e.g. "Pod" or "Job.batch.volcano.sh", in the order of namespace and name."""
        return [thing for key, thing in sorted(self.objects.items()) if key.startswith(f"{kind}/")]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a plan rests on, node by node, so that a change tells which gangs it touches. over: jobs that have finished."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    over: frozenset[str] = frozenset()


def hosts(nodes: Iterable[Object], leaves: Mapping[str, str]) -> Nodes:
    """Nodes whose hostname label is missing or shared with another cannot be named by a selector and are left out."""
    by_host: dict[str, list[str]] = {}
    for node in nodes:
        if host := labels_of(node).get(HOSTNAME):
            by_host.setdefault(host, []).append(str(node["metadata"]["name"]))
    unique = {host: names[0] for host, names in by_host.items() if len(names) == 1}
    return Nodes({name: host for host, name in unique.items()}, unique, leaves)


def gangs(snapshot: Snapshot) -> dict[str, Gang]:
    """Ref.key of the job -> the gang as planned."""
    later = {m.ref.key: _later(m.object) for m in snapshot.manifests if m.digest}
    found = {}
    for gang in snapshot.plan.get("gangs", ()):
        job = Ref(gang["apiVersion"], gang["kind"], gang["namespace"], gang["name"])
        reasons = tuple(f"{reason['code']}: {reason['message']}" for reason in gang["reasons"])
        taken, cards = tuple(gang["evictedFor"]), _cards(gang.get("cells", ()))
        found[job.key] = Gang(
            job, gang["decision"], gang["pods"], reasons, later.get(job.key, frozenset()), taken, cards
        )
    return found


def _cards(cells: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, list[int]]]:
    """Role -> node -> the card of each new pod that takes a share of a virtual GPU, the highest number first."""
    found: dict[str, dict[str, list[int]]] = {}
    for part in sorted(cells, key=lambda part: -int(part["cell"])):
        if part["division"] == VGPU_MEMORY:
            found.setdefault(part["role"], {}).setdefault(part["node"], []).extend([part["cell"]] * part["pods"])
    return found


def _later(job: Object) -> frozenset[str]:
    """Roles of a Volcano Job that its controller creates only once others run."""
    return frozenset(
        task["name"] for task in job["spec"].get("tasks") or () if (task.get("dependsOn") or {}).get("name")
    )


def fingerprint(seen: Seen, snapshot: Snapshot, finished_jobs: frozenset[str]) -> Fingerprint:
    """What the plan of `snapshot` rests on in `seen`. Pods that are where the plan wants them are no news and leave no
    trace, unless what the cluster says of a node's cells was behind its pods: then that counts as well."""
    planned = gangs(snapshot)
    nodes = hosts(seen.of("Node"), snapshot.leaves)
    found: dict[str, list[Any]] = {str(node["metadata"]["name"]): [_attributes(node)] for node in seen.of("Node")}
    for topology in seen.of("Numatopology.nodeinfo.volcano.sh"):
        if (name := str(topology["metadata"]["name"])) in found:
            found[name].append(_layout(topology))
            if name in snapshot.behind:
                found[name].append((topology.get("spec") or {}).get("numares"))
    for suspect in seen.suspects & found.keys():
        found[suspect].append("suspect")
    jobs = {key: thing for key, thing in seen.objects.items() if key in planned}
    pods = seen.of("Pod")
    expected = _as_planned(pods_by_job(pods, jobs)[0], planned, nodes)
    for pod in pods:
        node = place(pod, nodes)
        if node in found and node in snapshot.behind and (devices := annotations_of(pod).get(VGPU_ASSIGNMENT)):
            found[node].append(devices)
        if (
            node in found
            and uid(pod) not in expected
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ):
            found[node].append(uid(pod))
    return Fingerprint({node: digest(parts) for node, parts in found.items()}, finished_jobs)


def _as_planned(by_job: Mapping[str, Sequence[Object]], planned: Mapping[str, Gang], nodes: Nodes) -> set[str]:
    """uids of pods that stand at a place the plan gave to their role, and not more of them than it gave."""
    expected: set[str] = set()
    for key, pods in by_job.items():
        gang = planned[key]
        left = {(role, node): count for role, counts in gang.pods.items() for node, count in counts.items()}
        for pod in sorted(pods, key=uid):
            spot = role_of(pod, tuple(gang.pods)) or "", place(pod, nodes) or ""
            if not over(pod) and left.get(spot, 0) > 0:
                left[spot] -= 1
                expected.add(uid(pod))
    return expected


def _attributes(node: Object) -> list[Any]:
    """What decides whether pods may go to a node; heartbeats are left out."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    ready = [c.get("status") for c in status.get("conditions") or () if c.get("type") == "Ready"]
    return [uid(node), labels_of(node), spec.get("taints"), spec.get("unschedulable"), status.get("allocatable"), ready]


def _layout(topology: Object) -> list[Any]:
    """Which CPUs and devices are in which NUMA cell. What is idle of them changes with every pod, and pods count by
    themselves."""
    spec = topology.get("spec") or {}
    return [spec.get("policies"), spec.get("cpuDetail"), spec.get("gpuDetail"), spec.get("resReserved")]


def state(seen: Seen, stale: frozenset[str] = frozenset()) -> list[Object]:
    """The state for the compiler: objects of the state's kinds, without those in `stale` (finished jobs whose new run
    is to be planned)."""
    found = []
    for key, thing in sorted(seen.objects.items()):
        kind = key.partition("/")[0]
        if kind not in _STATE_GROUPS or key in stale:
            continue
        if kind == "Node" and thing["metadata"]["name"] in seen.suspects:
            thing = {**thing, "spec": {**(thing.get("spec") or {}), "unschedulable": True}}
        found.append(plain(thing))
    return found


def plain(thing: Object) -> Object:
    """As people expect to see it in a file: without the server's bookkeeping."""
    return {
        **thing,
        "metadata": {
            k: v for k, v in thing["metadata"].items() if k not in ("managedFields", "generation", "selfLink")
        },
    }
