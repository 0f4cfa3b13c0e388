"""Features and changes of Volcano 1.16 beyond 1.15, as data (`releases.toml`).

Sources: files of Volcano's master and of branches before the release of 1.16, which could not be run here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from typing import Any, NamedTuple

from compiler import kubernetes as k8s
from compiler.specs.cluster_spec import KNOWN_MINORS, NAMESPACE_QUEUES_SINCE, SchedulerSpec, Specs, VolcanoVersion
from compiler.volcano.arguments import OWNERS, find_argument
from compiler.volcano.shared_devices import VGPU_UUID_ANNOTATIONS


class Addition(NamedTuple):
    """since: the first minor version of Volcano 1.x that has it. gate: the feature gate that it needs, off by default;
    empty for none."""

    since: int
    gate: str = ""


NAMESPACE_QUEUE_GATE = "NamespaceQueue"
QUEUE_OF_NAMESPACE = Addition(NAMESPACE_QUEUES_SINCE, NAMESPACE_QUEUE_GATE)
"""NamespaceQueues, and namespace/NAME as the queue of a workload."""
NEW_KINDS = {"NamespaceQueue.scheduling.volcano.sh": QUEUE_OF_NAMESPACE}
NEW_FIELDS = {
    "Queue.scheduling.volcano.sh": {("spec", "allowedNamespaces"): QUEUE_OF_NAMESPACE},
    "PodGroup.scheduling.volcano.sh": {("spec", "topologyAffinity"): Addition(16)},
}
NEW_ANNOTATIONS = {k8s.NODE_GROUP_LIMITS_ANNOTATION: Addition(16)}
NEW_POD_ANNOTATIONS = dict.fromkeys(VGPU_UUID_ANNOTATIONS, Addition(16))
UNREAD_ANNOTATIONS = {
    k8s.QUEUE_OVERCOMMIT_ANNOTATION: "a design of August 2026 limits by it what a queue admits",
    k8s.DEQUEUE_ANNOTATION: "an example has it in place of spec.dequeueStrategy",
    k8s.CROSS_QUOTA_PREFIX: "a design limits by it what pods without GPUs hold of a node with GPUs",
}
"""Annotation, or a prefix, that no release up to 1.16 reads -> its origin."""
NEW_JOB_FLAGS = {("svc", "inject-hosts-env"): Addition(16)}
"""(plugin, flag) of Volcano Jobs."""
NEW_POD_FIELDS = {"schedulingGroup": Addition(16)}
REPLACED_POD_FIELDS = {"workloadRef": (16, "schedulingGroup.podGroupName")}
"""Fields of pod templates in Volcano's own kinds -> the first release without the field, and its replacement."""


@dataclass(frozen=True, slots=True)
class BehaviourChange:
    """A change of behaviour in a release. since: its minor version and patch. actions, plugins, kinds: it concerns
    repositories with one of them; all empty: every one."""

    since: Sequence[int]
    text: str
    actions: Sequence[str] = ()
    plugins: Sequence[str] = ()
    kinds: Sequence[str] = ()

    def concerns(self, specs: Specs) -> bool:
        scheduler = specs.scheduler
        if not (self.actions or self.plugins or self.kinds):
            return True
        if any(document.kind in self.kinds for document in specs.documents):
            return True
        return scheduler is not None and _has_one(scheduler, self.actions, self.plugins)


def _has_one(scheduler: SchedulerSpec, actions: Sequence[str], plugins: Sequence[str]) -> bool:
    return not set(actions).isdisjoint(scheduler.actions) or any(map(scheduler.plugin, plugins))


_TABLE = tomllib.loads((files("compiler.volcano") / "releases.toml").read_text("utf-8"))
CHANGES = tuple(BehaviourChange(**row) for row in _TABLE["changes"])


def release_changes(before: VolcanoVersion, after: VolcanoVersion, specs: Specs) -> Iterator[str]:
    """One sentence for each difference between two releases that concerns the repository."""
    first, last = ((version.minor, version.patch or 0) for version in (before, after))
    word = "from" if last > first else "until"
    for change in CHANGES:
        if min(first, last) < tuple(change.since) <= max(first, last) and change.concerns(specs):
            minor, patch = change.since
            yield f"{word} Volcano 1.{minor}{f'.{patch}' if patch else ''}: {change.text}"


@dataclass(frozen=True, slots=True)
class Vulnerability:
    """A known weakness. releases: minor version and patch. of_device_quotas: it concerns only clusters in which a queue
    has a quota of a device class."""

    name: str
    releases: Sequence[Sequence[int]]
    text: str
    fix: str
    of_device_quotas: bool = False


DEVICE_COUNTS = "GHSA-j38h-7pfq-cxmw"
"""The one that lets a claim for too many devices stop the scheduler."""
VULNERABILITIES = tuple(Vulnerability(**row) for row in _TABLE["vulnerabilities"])
_SCHEDULER_IMAGE = re.compile(r"(?:^|/)(?:vc|volcano)-scheduler[^/:@]*:v?1\.(\d{1,3})\.(\d{1,3})(?!\d)")


def vulnerabilities_of(version: VolcanoVersion, *, has_device_quotas: bool) -> tuple[Vulnerability, ...]:
    """Return the known vulnerabilities of a release; none if its patch is unknown."""
    found = (each for each in VULNERABILITIES if [version.minor, version.patch] in each.releases)
    return tuple(each for each in found if has_device_quotas >= each.of_device_quotas)


def limits_devices(queue: Mapping[str, Any]) -> bool:
    """Return whether a Queue object has a quota of a device class, as the plugin capacity reads one: deviceclass/NAME,
    or DIMENSION.deviceclass/NAME."""
    spec = queue.get("spec") or {}
    amounts = spec.get("capability"), spec.get("deserved"), (spec.get("guarantee") or {}).get("resource")
    names = chain.from_iterable(each or () for each in amounts)
    return any("deviceclass/" in name for name in names)


def release_of_image(image: str) -> VolcanoVersion | None:
    """Return the release in the tag of an image of Volcano's scheduler; None for other images and tags."""
    found = _SCHEDULER_IMAGE.search(image)
    return VolcanoVersion(int(found[1]), int(found[2])) if found else None


def releases_of_pods(pods: Iterable[k8s.Object]) -> tuple[VolcanoVersion, ...]:
    """Return the releases that images of pods name which have not finished; several while one replaces another."""
    found = set[VolcanoVersion | None]()
    for pod in pods:
        containers = () if k8s.is_finished_pod(pod) else (pod.get("spec") or {}).get("containers") or ()
        found.update(release_of_image(str(container.get("image"))) for container in containers)
    return tuple(sorted(filter(None, found)))


def as_declared(running: VolcanoVersion) -> str:
    """Return the fix for a running release whose rules differ from the plan's."""
    if running.minor not in KNOWN_MINORS:
        return f"run Volcano 1.{' or 1.'.join(map(str, KNOWN_MINORS))}, the releases that gangplan knows"
    return f'write volcano: "{running}" in the Cluster'


def newer_argument(owner: str, name: str, version: VolcanoVersion) -> int | None:
    """Return the minor version that reads the argument first, where that is newer than `version`; None else."""
    found = find_argument(owner, name)
    return found.since if found is not None and found.since > version.minor else None


def newer_plugin(name: str, version: VolcanoVersion) -> int | None:
    """Return the minor version that has the plugin first, where that is newer than `version`; None else."""
    owner = OWNERS.get(name)
    return owner.since if owner is not None and owner.since > version.minor else None
