"""What the oracle reads from a repository's documents: plain YAML, and its own arithmetic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import yaml

Amounts = Mapping[str, int]
"""Resource -> whole number: millicores, bytes, devices, pods."""

SUFFIXES = {
    "m": Fraction(1, 1000),
    "k": Fraction(1000),
    "Mi": Fraction(1024**2),
    "Gi": Fraction(1024**3),
    "Ti": Fraction(1024**4),
}


class UnknownDocumentError(Exception):
    """The oracle does not know what this part of a document means."""


@dataclass(frozen=True)
class Node:
    name: str
    has: Amounts
    labels: Mapping[str, str]
    tainted: bool


@dataclass(frozen=True)
class HyperNode:
    name: str
    tier: int
    members: tuple[str, ...]
    holds_nodes: bool


@dataclass(frozen=True)
class Queue:
    name: str
    parent: str | None
    weight: int
    priority: int
    guarantee: Amounts
    deserved: Amounts
    capability: Amounts
    groups: frozenset[str] = frozenset()
    group_limits: Mapping[str, Amounts] = field(default_factory=dict)


@dataclass(frozen=True)
class Term:
    """Keeps out of the domains of a tier that hold jobs with these labels, of its own namespace or of all."""

    tier: int
    labels: Mapping[str, str]
    namespace: str | None


@dataclass(frozen=True)
class Role:
    """pods: those that must run. tolerates: any taint. part_size: of its partitions, 0 for none; each in one domain of
    part_tier, where that is hard."""

    pods: int
    replicas: int
    asks: Amounts
    selector: Mapping[str, str]
    tolerates: bool = False
    part_size: int = 0
    part_tier: int | None = None


@dataclass(frozen=True)
class Job:
    """rank: 0 for the one that goes first. hard_tier: the highest tier under one hypernode of which all pods must
    be."""

    name: str
    queue: str
    priority: int
    rank: int
    roles: tuple[Role, ...]
    hard_tier: int | None
    labels: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[Term, ...] = ()

    def demand(self, replicas: bool = False) -> dict[str, int]:
        """What the pods ask for that must run, or all replicas."""
        found: dict[str, int] = {}
        for role in self.roles:
            for r, amount in role.asks.items():
                found[r] = found.get(r, 0) + amount * (role.replicas if replicas else role.pods)
        return found


@dataclass(frozen=True)
class World:
    """plugins: those that decide between queues, each with whether its hierarchy is on. groups: queues use only the
    node groups that they name."""

    nodes: tuple[Node, ...]
    hypernodes: tuple[HyperNode, ...]
    queues: Mapping[str, Queue]
    jobs: tuple[Job, ...]
    plugins: frozenset[str]
    reclaims: bool
    queues_first: bool
    enqueues: bool
    groups: bool = False

    @property
    def totals(self) -> dict[str, int]:
        """Resource that a job asks for or a queue names -> how much the cluster has."""
        names = {r for job in self.jobs for role in job.roles for r in role.asks}
        for queue in self.queues.values():
            names |= {*queue.guarantee, *queue.deserved, *queue.capability}
        return {r: sum(node.has.get(r, 0) for node in self.nodes) for r in sorted(names)}


def read_world(files: Mapping[str, bytes]) -> World:
    """The world of a repository with one cluster."""
    of_kind: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(files):
        for document in yaml.load_all(files[path], yaml.CSafeLoader):
            of_kind.setdefault(document["kind"], []).append(document)
    classes = {each["metadata"]["name"]: each["value"] for each in of_kind.get("PriorityClass", [])}
    tiers = {each["spec"].get("tierName"): each["spec"]["tier"] for each in of_kind.get("HyperNode", [])}
    said = (of_kind.get("SchedulerConfiguration") or [{}])[0].get("spec")
    plugins = {p["name"]: p for tier in (said or {}).get("tiers", []) for p in tier["plugins"]}
    if any(plugin.get("enableHierarchy") for plugin in plugins.values()):
        raise UnknownDocumentError("enableHierarchy")
    queues = {queue.name: queue for queue in map(_queue, of_kind.get("Queue", []))}
    for name in ("root", "default"):
        queues.setdefault(name, Queue(name, None if name == "root" else "root", 1, 0, {}, {}, {}))
    jobs = _jobs([*of_kind.get("Job", []), *_groups(of_kind)], classes, tiers)
    return World(
        tuple(map(_node, of_kind.get("Node", []))),
        tuple(map(_hypernode, of_kind.get("HyperNode", []))),
        queues,
        _in_turn(jobs, of_kind.get("ConfigMap", [])) if "fairshare" in plugins else jobs,
        frozenset(plugins) & {"capacity", "proportion"} if said else frozenset({"proportion"}),
        "reclaim" in (said or {}).get("actions", []),
        of_kind["Cluster"][0]["spec"].get("order", "queues-first") == "queues-first",
        said is None or "enqueue" in said.get("actions", []),
        "nodegroup" in plugins,
    )


def _groups(of_kind: Mapping[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """PodGroups with their pods, which are alike, as jobs with one task."""
    for group in of_kind.get("PodGroup", []):
        metadata, spec = group["metadata"], group["spec"]
        named = [
            pod
            for pod in of_kind.get("Pod", [])
            if (pod["metadata"]["namespace"], pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"])
            == (metadata["namespace"], metadata["name"])
        ]
        pod = {key: value for key, value in named[0]["spec"].items() if key != "schedulerName"}
        task = {"name": "pods", "replicas": len(named), "minAvailable": spec["minMember"], "template": {"spec": pod}}
        yield {**group, "spec": {**spec, "tasks": [task]}}


def _in_turn(jobs: tuple[Job, ...], config_maps: list[dict[str, Any]]) -> tuple[Job, ...]:
    """The jobs of a queue share their ranks: those of the namespace that used less first, in it the oldest. Use is as
    written, since nothing says how late it is, and nothing runs."""
    said = json.loads(config_maps[0]["data"]["state.json"])["queues"]
    found = []
    for queue in sorted({job.queue for job in jobs}):
        used = said.get(queue, {})
        members = sorted((job for job in jobs if job.queue == queue), key=lambda job: job.rank)
        first = sorted(members, key=lambda job: used.get(job.name.split("/")[0], 0))
        found += [replace(job, rank=at.rank) for job, at in zip(first, members, strict=True)]
    return tuple(sorted(found, key=lambda job: job.rank))


def quantity(resource: str, said: object) -> int:
    """A Kubernetes quantity as a whole number, cpu in thousandths."""
    text = str(said)
    digits = text.rstrip("kmMGTi")
    value = Fraction(digits) * SUFFIXES.get(text[len(digits) :], Fraction(1)) * (1000 if resource == "cpu" else 1)
    if value.denominator != 1 or text[len(digits) :] not in ("", *SUFFIXES):
        raise UnknownDocumentError(f"{resource}: {said}")
    return int(value)


def amounts(said: Mapping[str, object] | None) -> dict[str, int]:
    return {resource: quantity(resource, amount) for resource, amount in (said or {}).items()}


def _node(document: Mapping[str, Any]) -> Node:
    metadata, spec = document["metadata"], document.get("spec") or {}
    if set(spec) - {"taints"}:
        raise UnknownDocumentError(f"spec of a node: {spec}")
    has = amounts(document["status"]["allocatable"])
    return Node(metadata["name"], has, metadata.get("labels", {}), bool(spec.get("taints")))


def _hypernode(document: Mapping[str, Any]) -> HyperNode:
    spec = document["spec"]
    members = tuple(member["selector"]["exactMatch"]["name"] for member in spec["members"])
    kinds = {member["type"] for member in spec["members"]}
    return HyperNode(document["metadata"]["name"], spec["tier"], members, kinds == {"Node"})


def _queue(document: Mapping[str, Any]) -> Queue:
    name, spec = document["metadata"]["name"], document.get("spec") or {}
    said = document["metadata"].get("annotations", {}).get("volcano.sh/nodegroup-resource-limits", "{}")
    return Queue(
        name,
        None if name == "root" else spec.get("parent", "root"),
        spec.get("weight", 1),
        spec.get("priority", 0),
        amounts(spec.get("guarantee", {}).get("resource")),
        amounts(spec.get("deserved")),
        amounts(spec.get("capability")),
        frozenset(_required(spec.get("affinity", {}).get("nodeGroupAffinity", {}))),
        {group: amounts(limits) for group, limits in json.loads(said).items()},
    )


def _required(affinity: Mapping[str, Any]) -> list[str]:
    if set(affinity) - {"requiredDuringSchedulingIgnoredDuringExecution"}:
        raise UnknownDocumentError(f"affinity of a queue: {affinity}")
    return list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution", []))


def _jobs(documents: list[dict[str, Any]], classes: Mapping[str, int], tiers: Mapping[str, int]) -> tuple[Job, ...]:
    """Jobs of known age first, the oldest before the others; then by namespace and name."""

    def age(document: Mapping[str, Any]) -> tuple[bool, str, str, str]:
        metadata = document["metadata"]
        submitted = metadata.get("annotations", {}).get("gangplan.dev/submitted-at", "")
        return not submitted, submitted, metadata["namespace"], metadata["name"]

    found = []
    for rank, document in enumerate(sorted(documents, key=age)):
        spec, metadata = document["spec"], document["metadata"]
        roles = tuple(_role(task, tiers) for task in spec["tasks"])
        if spec.get("minAvailable", sum(role.pods for role in roles)) != sum(role.pods for role in roles):
            raise UnknownDocumentError("minAvailable that leaves the mix of roles open")
        found.append(
            Job(
                f"{metadata['namespace']}/{metadata['name']}",
                spec.get("queue", "default"),
                classes[spec["priorityClassName"]] if "priorityClassName" in spec else 0,
                rank,
                roles,
                _hard_tier(spec.get("networkTopology", {}), tiers),
                metadata.get("labels", {}),
                tuple(_terms(spec.get("topologyAffinity", {}), metadata["namespace"])),
            )
        )
    return tuple(found)


def _terms(affinity: Mapping[str, Any], namespace: str) -> Iterator[Term]:
    for term in affinity.get("podGroupAntiAffinity", {}).get("required", []):
        if set(term["podGroupSelector"]) - {"matchLabels"} or term.get("namespaceSelector"):
            raise UnknownDocumentError(f"term {term}")
        labels = term["podGroupSelector"].get("matchLabels", {})
        yield Term(term["topologyTier"], labels, None if "namespaceSelector" in term else namespace)


def _role(task: Mapping[str, Any], tiers: Mapping[str, int]) -> Role:
    pod, parts = task["template"]["spec"], task.get("partitionPolicy", {})
    tolerations = pod.get("tolerations", [])
    if set(pod) - {"restartPolicy", "containers", "nodeSelector", "tolerations"}:
        raise UnknownDocumentError(f"task {task['name']}")
    if tolerations not in ([], [{"operator": "Exists"}]):
        raise UnknownDocumentError(f"task {task['name']}")
    asks: dict[str, int] = {"pods": 1}
    for container in pod["containers"]:
        for r, amount in amounts(container["resources"]["requests"]).items():
            asks[r] = asks.get(r, 0) + amount
    return Role(
        task.get("minAvailable", task["replicas"]),
        task["replicas"],
        {r: a for r, a in asks.items() if a},
        pod.get("nodeSelector", {}),
        bool(tolerations),
        parts.get("partitionSize", 0),
        _hard_tier(parts.get("networkTopology", {}), tiers),
    )


def _hard_tier(topology: Mapping[str, Any], tiers: Mapping[str, int]) -> int | None:
    said: int | None = topology.get("highestTierAllowed", tiers.get(topology.get("highestTierName", ""), 1))
    return said if topology.get("mode") == "hard" else None
