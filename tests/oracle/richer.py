"""The random repositories of `worlds`, with more of what their documents can say: queues below others, amounts of
CPUs and memory, a third tier, tiers by name, elastic partitions, three priorities."""

from __future__ import annotations

import random

import yaml

from tests.builders.declared import GPU, Object, hypernode, priority_class, queue
from tests.oracle.worlds import random_repository, written


def richer_repository(seed: int) -> dict[str, bytes]:
    """The files of the repository with this number; the same files for the same number."""
    chance = random.Random(f"richer {seed}")  # noqa: S311 - a sample, no secret
    files = {path: list(yaml.load_all(text, yaml.CSafeLoader)) for path, text in random_repository(seed).items()}
    fixed = files["cluster-specs/c/all.yaml"]
    of_kind: dict[str, list[Object]] = {}
    for document in (each for documents in files.values() for each in documents):
        of_kind.setdefault(document["kind"], []).append(document)
    fixed += _third_tier(chance, of_kind.get("HyperNode", []))
    for each in of_kind["Queue"]:
        _name_more_amounts(chance, each["spec"])
    fixed += _parents(chance, of_kind["Queue"])
    for node in of_kind["Node"]:
        node["status"]["allocatable"]["memory"] = chance.choice(("8Gi", "16Gi", "32768Mi"))
    tiers = sorted({each["spec"]["tier"] for each in fixed if each["kind"] == "HyperNode"})
    for job in of_kind["Job"]:
        _vary_job(chance, job, tiers)
    fixed.append(priority_class("p15", 15))
    return {path: written(documents) for path, documents in files.items()}


def _parents(chance: random.Random, queues: list[Object]) -> list[Object]:
    """In half of the worlds some queues get one above them, which may have a limit of its own."""
    inner = [each for each in queues if chance.random() < 0.6] if chance.random() < 0.5 else []
    if not inner:
        return []
    for each in inner:
        each["spec"]["parent"] = "top"
    spec: Object = {"weight": 1}
    deserved = _sums([each["spec"].get("deserved", {}) for each in inner])
    guaranteed = _sums([each["spec"].get("guarantee", {}).get("resource", {}) for each in inner])
    if deserved:
        spec["deserved"] = deserved
    if guaranteed:
        spec["guarantee"] = {"resource": guaranteed}
    if chance.random() < 0.5:
        limits = [each["spec"].get("capability", {}).get(GPU, 0) for each in inner]
        spec["capability"] = {GPU: max(int(deserved.get(GPU, 0)), *limits, chance.choice((4, 8, 12)))}
    return [queue("top", **spec)]


def _sums(amounts: list[Object]) -> Object:
    """Resource -> the sum, as Kubernetes writes it."""
    found: Object = {}
    for resource in sorted({resource for each in amounts for resource in each}):
        unit = "Gi" if resource == "memory" else ""
        found[resource] = f"{sum(int(str(each.get(resource, 0)).removesuffix('Gi')) for each in amounts)}{unit}"
    return found


def _third_tier(chance: random.Random, hypernodes: list[Object]) -> list[Object]:
    """One above all of tier 2, or above most of them; each tier has a name."""
    spines = [each["metadata"]["name"] for each in hypernodes if each["spec"]["tier"] == 2]
    members = [name for name in spines if chance.random() < 0.8]
    found = [hypernode("core", *members, tier=3)] if members and chance.random() < 0.5 else []
    for each in (*hypernodes, *found):
        each["spec"]["tierName"] = f"tier-{each['spec']['tier']}"
    return found


def _name_more_amounts(chance: random.Random, spec: Object) -> None:
    """guarantee <= deserved <= capability, of CPUs too, and of memory."""
    for resource, sizes in (("cpu", (1, 2, 4, 8)), ("memory", (2, 4, 8))):
        if chance.random() < 0.25:
            unit = "Gi" if resource == "memory" else ""
            least, middle, most = sorted(chance.choice(sizes) for _ in range(3))
            if chance.random() < 0.2 and resource == "memory":
                spec.setdefault("guarantee", {}).setdefault("resource", {})[resource] = "1Gi"
            spec.setdefault("deserved", {})[resource] = f"{middle}{unit}"
            if chance.random() < 0.4:
                spec.setdefault("capability", {})[resource] = f"{max(least, most)}{unit}"


def _vary_job(chance: random.Random, job: Object, tiers: list[int]) -> None:
    spec = job["spec"]
    topologies = [spec["networkTopology"]] if "networkTopology" in spec else []
    for task in spec["tasks"]:
        asks = task["template"]["spec"]["containers"][0]["resources"]["requests"]
        if chance.random() < 0.5:
            asks["memory"] = chance.choice(("1Gi", "512Mi", "3Gi", "4Gi"))
        if parts := task.get("partitionPolicy"):
            topologies.append(parts["networkTopology"])
            if parts["totalPartitions"] > 1 and chance.random() < 0.4:
                parts["minPartitions"] = 1
                task["minAvailable"] = parts["partitionSize"]
    spec["minAvailable"] = sum(task["minAvailable"] for task in spec["tasks"])
    for topology in topologies if tiers else ():
        topology["highestTierAllowed"] = tier = chance.choice(tiers)
        if chance.random() < 0.25:
            del topology["highestTierAllowed"]
            topology["highestTierName"] = f"tier-{tier}"
    if spec.get("priorityClassName") and chance.random() < 0.4:
        spec["priorityClassName"] = "p15"
