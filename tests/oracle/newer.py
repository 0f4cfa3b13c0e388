"""The random repositories of `worlds` on Volcano 1.16: PodGroups that keep apart, limits of queues on node groups, and
the turns of fairshare."""

from __future__ import annotations

import json
import random

import yaml

from tests.builders.declared import GPU, Object, declared
from tests.oracle.worlds import random_repository, written

PLUGINS = ("predicates", "nodeorder", "binpack", "nodegroup", "group-topology-affinity", "fairshare")
APPS, NAMESPACES, GROUPS = ("x", "y"), ("ns", "other"), ("g", "h")


def newer_repository(seed: int) -> dict[str, bytes]:
    """The files of the repository with this number; the same files for the same number. What lies in state/ is the
    cluster's and not the repository's."""
    chance = random.Random(f"newer {seed}")  # noqa: S311 - a sample, no secret
    files = {path: list(yaml.load_all(text, yaml.CSafeLoader)) for path, text in random_repository(seed).items()}
    of_kind: dict[str, list[Object]] = {}
    for document in (each for documents in files.values() for each in documents):
        of_kind.setdefault(document["kind"], []).append(document)
    of_kind["Cluster"][0]["spec"]["volcano"] = "1.16"
    second = of_kind["SchedulerConfiguration"][0]["spec"]["tiers"][1]
    by_queue = chance.choice(((), ("capacity",)))
    second["plugins"] = [{"name": name} for name in (*by_queue, *PLUGINS)]
    for node in of_kind["Node"]:
        node["metadata"]["labels"]["volcano.sh/nodegroup-name"] = chance.choice(GROUPS)
    for queue in of_kind["Queue"]:
        _limit(chance, queue)
    tiers = sorted({each["spec"]["tier"] for each in of_kind.get("HyperNode", [])})
    for path, documents in files.items():
        if path.startswith("jobs/"):
            (job,) = documents
            job["metadata"] |= {"namespace": chance.choice(NAMESPACES), "labels": {"app": chance.choice(APPS)}}
            if tiers and chance.random() < 0.5:
                documents[:] = _pod_group(chance, job, tiers)
    used = {
        queue["metadata"]["name"]: {name: chance.choice((0, 5000, 70000)) for name in NAMESPACES}
        for queue in of_kind["Queue"]
    }
    text = json.dumps({"lastCycle": "2026-01-01T00:00:00Z", "queues": used})
    metadata = {"name": "fairshare-usage-state", "namespace": "volcano-system"}
    state = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"state.json": text}}
    return {path: written(documents) for path, documents in {**files, "state/use.yaml": [state]}.items()}


def _limit(chance: random.Random, queue: Object) -> None:
    """The node groups that the queue may use, and in most worlds what it may hold in one of them."""
    open_groups = chance.choice((GROUPS, GROUPS, GROUPS[:1], GROUPS[1:]))
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(open_groups)}
    queue["spec"]["affinity"] = {"nodeGroupAffinity": required}
    if chance.random() < 0.6:
        limits = {GPU: str(chance.choice((0, 2, 4, 5, 8)))} | ({"cpu": "3500m"} if chance.random() < 0.2 else {})
        text = json.dumps({chance.choice(open_groups): limits})
        queue["metadata"]["annotations"] = {"volcano.sh/nodegroup-resource-limits": text}


def _pod_group(chance: random.Random, job: Object, tiers: list[int]) -> list[Object]:
    """A PodGroup with as many pods as the job's first task needs, that keeps out of the domains of others."""
    spec, metadata, (task, *_) = job["spec"], job["metadata"], job["spec"]["tasks"]
    terms = [_term(chance, tiers) for _ in range(chance.choice((1, 1, 1, 2)))]
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {
            **{name: spec[name] for name in ("queue", "priorityClassName", "networkTopology") if name in spec},
            "minMember": task["minAvailable"],
            "topologyAffinity": {"podGroupAntiAffinity": {"required": terms}},
        },
    }
    notes = {"scheduling.k8s.io/group-name": metadata["name"]}
    pod = {**task["template"]["spec"], "schedulerName": "volcano"}
    pods = [
        declared("Pod", f"{metadata['name']}-{n}", pod, namespace=metadata["namespace"], annotations=notes)
        for n in range(task["minAvailable"])
    ]
    return [group, *pods]


def _term(chance: random.Random, tiers: list[int]) -> Object:
    """Mostly of a tier that there is, sometimes of the whole cluster or of none."""
    found: Object = {"topologyTier": chance.choice((*tiers, *tiers, *tiers, tiers[-1] + 1, tiers[-1] + 2))}
    selector = chance.choice(({"matchLabels": {"app": "x"}}, {"matchLabels": {"app": "y"}}, {}))
    if chance.random() < 0.4:
        found["namespaceSelector"] = {}
    return {"podGroupSelector": selector, **found}
