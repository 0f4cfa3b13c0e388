"""Checks of NUMA nodes and shared devices, and of pods that request them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from compiler.checks.check import CheckInput, DocumentInput, Finding, ModelOf, check
from compiler.checks.volcano_job import VOLCANO_JOB
from compiler.diagnostics.diagnostic import Severity
from compiler.fields.quantity import exact_amount, integer_amounts, read_quantity
from compiler.kubernetes import (
    GROUP_MIN_MEMBER_ANNOTATION,
    NUMA_POLICY_ANNOTATION,
    QOS_LEVEL_ANNOTATION,
    TOPOLOGY_TIER_ANNOTATION,
    VGPU_REGISTER_ANNOTATION,
)
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import value_at
from compiler.validation.judge import items, mapping
from compiler.volcano.numatopology import is_numa_aware
from compiler.volcano.releases import NEW_POD_ANNOTATIONS
from compiler.volcano.shared_devices import FULL_PERCENTAGE, SHARING_MODE, VGPU_MEMORY, VGPU_NUMBER, shares_devices

if TYPE_CHECKING:
    from compiler.kinds.node_pool import NodePool, SharedDevices
    from compiler.kinds.numatopology import Numatopology

NODE_POOL: ModelOf[NodePool] = ModelOf("NodePool.gangplan.dev")
WHOLE_GPU = "nvidia.com/gpu"
NUMATOPOLOGY: ModelOf[Numatopology] = ModelOf("Numatopology.nodeinfo.volcano.sh")


@check("GP370", "NUMA cells hold more than the node", of_document=True)
def numa_above_capacity(check_input: DocumentInput) -> Iterator[Finding]:
    """The cells of spec.numa divide what one node has: of each resource they come to at most the pool's capacity. Fix:
    correct the cells or the capacity."""
    for document, pool in check_input.documents_of(NODE_POOL):
        total: dict[str, int] = {}
        for cell in pool.spec.numa.cells if pool.spec.numa else ():
            for name, amount in integer_amounts(cell, "down").items():
                total[name] = total.get(name, 0) + amount
        capacity = integer_amounts(pool.spec.capacity, "down")
        for name, amount in total.items():
            if amount > capacity.get(name, 0):
                most = exact_amount(name, capacity.get(name, 0))
                message = f"the cells have {exact_amount(name, amount)} {name} in sum, a node {most}"
                yield Finding(document, ("spec", "numa", "cells"), message, "correct the cells or the capacity")


@check("GP371", "shared devices of two sizes")
def unequal_shared_devices(check_input: CheckInput) -> Iterator[Finding]:
    """A resource of shared devices means one thing in a cluster: every device offers the same amount of it, and whole
    devices are asked for by the same name, so that "one device" is one amount. (volcano.sh/vgpu-memory is excepted: a
    pod requests any amount.) Fix: use another resource for the other devices."""
    first: dict[str, tuple[SharedDevices, tuple[Document, FieldPath]]] = {}
    for document, pool in _pools_with_shared_devices(check_input):
        for index, shared in enumerate(pool.spec.shared_devices or ()):
            path = ("spec", "sharedDevices", index)
            known, at = first.setdefault(shared.resource, (shared, (document, path)))
            if shared.resource != VGPU_MEMORY and (known.each, known.whole) != (shared.each, shared.whole):
                message = (
                    f"{shared.resource} is {shared.each} of a device and whole {shared.whole}, "
                    f"elsewhere {known.each} and {known.whole}"
                )
                yield Finding(document, path, message, "use another resource for these devices", at)


def _pools_with_shared_devices(check_input: CheckInput) -> Iterator[tuple[Document, NodePool]]:
    """All NodePools where a node has such devices, else none."""
    if any(node.shared_devices for node in check_input.specs.nodes):
        yield from check_input.documents_of(NODE_POOL)


@check("GP372", "part of a device that no device can give")
def impossible_device_share(check_input: CheckInput) -> Iterator[Finding]:
    """A pod asks for a part of one device, up to all of it, or for several whole ones: then the amount is a multiple of
    what one offers. It does not ask for parts and for whole ones at once. Fix: ask for less, for a multiple, or for
    one of the two."""
    known = {
        shared.resource: shared
        for _, pool in _pools_with_shared_devices(check_input)
        for shared in pool.spec.shared_devices or ()
    }
    known.pop(VGPU_MEMORY, None)
    for gang in check_input.jobs:
        for role in gang.roles:
            yield from _more_than_a_card(gang, role)
            for resource, shared in known.items():
                amount = role.pod.requests.get(resource, 0)
                where = _pod_location(gang, role)
                if amount > shared.each and amount % shared.each:
                    message = f"a pod of role {role.name} asks for {amount} {resource}, one device has {shared.each}"
                    yield Finding(*where, message, f"ask for {shared.each} at most, or for a multiple of it")
                elif amount and role.pod.requests.get(shared.whole or "", 0):
                    message = f"a pod of role {role.name} asks for {resource} and for {shared.whole}"
                    yield Finding(*where, message, "ask for one of the two")


def _more_than_a_card(gang: GangSpec, role: RoleSpec) -> Iterator[Finding]:
    """More than all of a virtual GPU's memory. (Of its cores more than all are all, for Volcano.)"""
    for request in role.pod.vgpu_requests:
        if request.percentage > FULL_PERCENTAGE:
            message = f"a pod of role {role.name} asks for {request.percentage} percent of the memory of one card"
            yield Finding(*_pod_location(gang, role), message, f"ask for {FULL_PERCENTAGE} at most")


def annotation_place(gang: GangSpec, role: RoleSpec, key: str) -> tuple[Document, FieldPath]:
    """Return the place of an annotation of the role's pods."""
    document, path = _pod_location(gang, role)
    return document, (*path[: -1 if role.pod_documents else None], "metadata", "annotations", key)


def _pod_location(gang: GangSpec, role: RoleSpec) -> tuple[Document, FieldPath]:
    """The role's pod template, or the first of its bare pods."""
    return (role.pod_documents[0], ("spec",)) if role.pod_documents else (gang.document, role.template_path)


@check("GP373", "topologyPolicy without effect", "warning")
def topology_policy_without_effect(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano's plugin numa-aware enforces a task's topologyPolicy and the annotation volcano.sh/numa-topology-policy
    of a pod. It does so only for pods of QoS class Guaranteed: limits of cpu and memory in every container, requests
    equal to them. Fix: add the plugin, complete the limits, or remove the policy."""
    for gang in check_input.jobs:
        for role in gang.roles:
            if not role.pod.topology_policy:
                continue
            document, path = _policy_location(gang, role)
            if check_input.specs.scheduler is not None and not is_numa_aware(check_input.specs.scheduler):
                message = "the scheduler's configuration lacks the plugin numa-aware"
                yield Finding(document, path, message, "add the plugin, or remove the policy")
            elif not role.pod.guaranteed_qos:
                message = "the pods are not Guaranteed"
                help = "give every container limits of cpu and memory, and no other requests"
                yield Finding(document, path, message, help)


def _policy_location(gang: GangSpec, role: RoleSpec) -> tuple[Document, FieldPath]:
    """Where the topology policy of a role is written."""
    document, of_task = gang.document, (*role.path, "topologyPolicy")
    if of_task in document.positions:
        return document, of_task
    document, path = _pod_location(gang, role)
    return document, (*path[: -1 if role.pod_documents else None], "metadata", "annotations", NUMA_POLICY_ANNOTATION)


@check("GP374", "topologyPolicy with a part of a CPU", of_document=True)
def fractional_cpus(check_input: DocumentInput) -> Iterator[Finding]:
    """With a topologyPolicy other than none each container asks for whole CPUs, one at least, in its requests (in its
    limits where it has none); else Volcano's admission refuses the job. Fix: round the requests up."""
    for document, job in check_input.documents_of(VOLCANO_JOB):
        for index, task in enumerate(job.spec.tasks):
            if task.topology_policy in (None, "none"):
                continue
            pod = task.template.spec
            for field, containers in (("containers", pod.containers), ("initContainers", pod.init_containers or [])):
                for number, container in enumerate(containers):
                    resources = container.resources
                    amounts = (resources.requests or resources.limits) if resources else None
                    asked = (amounts or {}).get("cpu", Fraction(0))
                    if asked.denominator != 1 or not asked:
                        path = ("spec", "tasks", index, "template", "spec", field, number)
                        message = f"the container asks for {float(asked):g} CPUs"
                        yield Finding(document, path, message, "ask for whole CPUs")


@check("GP375", "virtual GPUs without the plugin deviceshare", "warning")
def vgpus_without_plugin(check_input: CheckInput) -> Iterator[Finding]:
    """Only the plugin deviceshare with deviceshare.VGPUEnable puts pods that ask for volcano.sh/vgpu-* onto devices;
    without it Volcano counts sums over nodes. Fix: add the plugin with that argument."""
    if shares_devices(check_input.specs.scheduler, VGPU_MEMORY):
        return
    for gang in check_input.jobs:
        for role in gang.roles:
            if role.pod.vgpu_requests:
                message = f"role {role.name} asks for virtual GPUs, and the scheduler does not share devices"
                yield Finding(
                    *_pod_location(gang, role), message, "add the plugin deviceshare with deviceshare.VGPUEnable: true"
                )


@check("GP384", "two resources of the same cards", "warning")
def two_resources_of_one_card(check_input: CheckInput) -> Iterator[Finding]:
    """A node that offers nvidia.com/gpu and volcano.sh/vgpu-number makes both of the same cards, and each resource is
    counted on its own: a card may be given whole to one pod and in parts to others. Fix: let one device plugin run on
    each node, and separate the nodes by labels."""
    pods = [role.pod for gang in check_input.specs.gangs for role in gang.roles]
    requested = {name for pod in pods for name in pod.requests}
    if not {WHOLE_GPU, VGPU_NUMBER} <= requested:
        return
    both = [
        node
        for node in check_input.specs.nodes
        if min(node.allocatable.get(WHOLE_GPU, 0), node.allocatable.get(VGPU_NUMBER, 0)) > 0
    ]
    for node in both[:1]:
        message = f"{WHOLE_GPU} and {VGPU_NUMBER} are made of the same cards of {len(both)} nodes, such as {node.name}"
        help = "let each node offer one of the two, and select nodes by label"
        yield Finding(node.document, ("metadata", "name"), message, help)


@check("GP385", "cards cut into fixed parts", "warning")
def cards_in_mig_mode(check_input: CheckInput) -> Iterator[Finding]:
    """A card in mode mig is cut into instances of fixed sizes, defined in the device plugin's ConfigMap. The plan
    counts its memory in MiB, so more pods may fit than the card has instances. Fix: ask for the memory of an instance,
    and leave room."""
    if not any(role.pod.vgpu_requests for gang in check_input.specs.gangs for role in gang.roles):
        return
    cut = [node for node in check_input.specs.nodes if node.labels.get(SHARING_MODE) == "mig"]
    for node in cut[:1]:
        message = f"the cards of {len(cut)} nodes, such as {node.name}, are in mode mig, which is planned by MiB alone"
        help = "ask for what one instance has, and for no more instances than there are"
        yield Finding(node.document, ("metadata", "annotations", VGPU_REGISTER_ANNOTATION), message, help)


@check("GP386", "device or annotation that the plan does not follow", "warning", folds=True)
def unplanned_device_annotations(check_input: CheckInput) -> Iterator[Finding]:
    """A component of Volcano reads the annotation, and the plan does not. With one of the plugin deviceshare, pods may
    wait at their planned nodes. With one of the agent, offline pods are throttled and evicted while others need the
    node. Parts of Ascend's NPUs are divided by templates (vir01, vir02, ...) that the plan does not know; of several
    NPUs there are none. Devices of resourceClaims are not counted. Fix: remove it, or leave room."""
    for gang in check_input.jobs:
        for role in gang.roles:
            for (key, value), (severity, meaning) in _UNPLANNED.items():
                if role.annotations.get(key) == value:
                    message = f"{key}: {value} is not planned: {meaning}"
                    at = annotation_place(gang, role, key)
                    yield Finding(*at, message, "remove it, or leave room", severity=severity)
            level = role.annotations.get(QOS_LEVEL_ANNOTATION)
            if level is not None and level not in _QOS_LEVELS:
                message = f"{QOS_LEVEL_ANNOTATION} is {level!r}, which the agent takes for no level"
                at = annotation_place(gang, role, QOS_LEVEL_ANNOTATION)
                yield Finding(*at, message, f"write one of {', '.join(_QOS_LEVELS)}")
            yield from _cards_by_uuid(check_input, gang, role)
            yield from _parts_of_several_npus(gang, role)
            for name in role.pod.requests:
                if _VIRTUAL_NPU.fullmatch(name):
                    message = f"{name} is planned as an amount of the node, not NPU by NPU, nor by its templates"
                    help = "leave room, or ask for whole NPUs"
                    yield Finding(*_pod_location(gang, role), message, help, severity="info")

    for gang in check_input.jobs_and_services:
        for role in gang.roles:
            yield from _of_other_schedulers(gang, role)
            if role.pod.has_unplanned_needs and not check_input.schedulers:  # else GP430 reports it
                document, path = gang.pod_spec_of(role)
                if mapping(value_at(document.data, path)).get("resourceClaims"):
                    message = "devices of its resourceClaims are not planned: Volcano may refuse the planned node"
                    yield Finding(document, (*path, "resourceClaims"), message, "leave room for them", severity="info")


def _of_other_schedulers(gang: GangSpec, role: RoleSpec) -> Iterator[Finding]:
    for key, (meaning, help) in _OF_OTHER_SCHEDULERS.items():
        if key in role.annotations:
            message = f"{key} is not planned: {meaning}"
            yield Finding(*annotation_place(gang, role, key), message, help, severity="info")


def _cards_by_uuid(check_input: CheckInput, gang: GangSpec, role: RoleSpec) -> Iterator[Finding]:
    """Where the release has the annotations; else GP436 reports them."""
    for key, addition in NEW_POD_ANNOTATIONS.items() if role.pod.vgpu_requests else ():
        if key in role.annotations and check_input.specs.cluster.volcano.minor >= addition.since:
            message = f"{key} is not planned: Volcano may refuse the planned node for its cards"
            yield Finding(*annotation_place(gang, role, key), message, "remove it, or leave room")


def _parts_of_several_npus(gang: GangSpec, role: RoleSpec) -> Iterator[Finding]:
    """HAMi gives a container one NPU in part, or several whole ones."""
    if not any(name.startswith("huawei.com/") for name in role.pod.requests):
        return
    document, path = gang.pod_spec_of(role)
    for number, container in items(value_at(document.data, path), "containers"):
        for section in ("limits", "requests"):
            amounts = mapping(container, "resources", section)
            for name, memory in amounts.items():
                model = match[1] if (match := _NPU_MEMORY.fullmatch(str(name))) else ""
                count, part = (_whole(each) for each in (amounts.get(f"huawei.com/{model}"), memory))
                if count > 1 and 0 < part < _MEMORY_OF_NPUS.get(model, 0):
                    at = (*path, "containers", number, "resources", section, name)
                    message = f"HAMi gives no container a part of {count} NPUs: the pod never starts"
                    help = f"leave it out for whole NPUs, or ask for one huawei.com/{model}"
                    yield Finding(document, at, message, help)
                    return


def _whole(amount: object) -> int:
    return int(read_quantity(amount) or 0)


_MEMORY_OF_NPUS = {
    "Ascend310P": 21527,
    "Ascend910A": 32768,
    "Ascend910B2": 65536,
    "Ascend910B3": 65536,
    "Ascend910B4": 32768,
}
"""Model -> MiB of a whole NPU, as in the ConfigMap of Volcano's and HAMi's device plugins."""
_NPU_MEMORY = re.compile(r"huawei\.com/(Ascend\w+)-memory")
_BY_KAI = "KAI's scheduler shares GPUs by it", "leave room"
_BY_KUEUE = "Kueue keeps pods in one domain by it", f"write {TOPOLOGY_TIER_ANNOTATION}, or leave room"
_OF_OTHER_SCHEDULERS = {
    "gpu-fraction": _BY_KAI,
    "gpu-memory": _BY_KAI,
    "gang.scheduling.koordinator.sh/min-available": (
        "Koordinator's scheduler starts pods together by it",
        f"use a PodGroup of Volcano, or {GROUP_MIN_MEMBER_ANNOTATION} of the owner",
    ),
    "kueue.x-k8s.io/podset-required-topology": _BY_KUEUE,
    "kueue.x-k8s.io/podset-preferred-topology": _BY_KUEUE,
}
"""Annotation of a pod -> what another scheduler makes of it, and the fix."""
_QOS_LEVELS = ("HLS", "LC", "LS", "BE")
_VIRTUAL_NPU = re.compile(r"huawei\.com/(Ascend\w+-memory|npu-core)")
_OFFLINE = "the agent throttles and evicts its pods while others need the node"
_UNPLANNED: Mapping[tuple[str, str], tuple[Severity, str]] = {
    (QOS_LEVEL_ANNOTATION, "BE"): ("info", _OFFLINE),
    **{
        (QOS_LEVEL_ANNOTATION, level): ("info", "the agent gives its pods CPUs before offline ones")
        for level in _QOS_LEVELS[:3]
    },
    ("volcano.sh/vgpu-podgroup-policy", "spread"): ("warning", "no two pods of a gang share a card"),
}
"""Annotation of a pod and its value -> what follows from it."""


@check("GP376", "Numatopology of no node", "warning")
def numatopology_without_node(check_input: CheckInput) -> Iterator[Finding]:
    """A Numatopology has the name of its node; one without a node has no effect. Fix: correct the name, or add the
    node."""
    names = {node.name for node in check_input.specs.nodes}
    for document, _ in check_input.documents_of(NUMATOPOLOGY):
        if names and document.name not in names:
            message = f"there is no node {document.name!r}"
            yield Finding(document, ("metadata", "name"), message, "correct the name, or add the node")
