"""Shared devices: Volcano's virtual GPUs and shared GPU memory, on nodes, pods and in annotations.

Source: volcano-sh/volcano, pkg/scheduler/api/devices/nvidia (vgpu, gpushare). A container requests `vgpu-number`
devices, each with `vgpu-memory` MiB (a percentage has precedence; neither means all of it) and `vgpu-cores` percent;
100 percent of the cores is a device of its own. Annotations of a pod choose cards by the name of their model, and nodes
by how their cards are shared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from compiler.fields.texts import whole_number
from compiler.kubernetes import VGPU_REGISTER_ANNOTATION
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.eligibility import with_label_rows
from compiler.specs.gang_spec import GangSpec
from compiler.specs.node_spec import SharedDeviceSpec
from compiler.specs.pod_spec import Amounts, Expression, PodSpec, VgpuRequest

VGPU_NUMBER = "volcano.sh/vgpu-number"
VGPU_MEMORY = "volcano.sh/vgpu-memory"
VGPU_MEMORY_PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
VGPU_CORES = "volcano.sh/vgpu-cores"
FULL_DEVICE_CORES = 100
FULL_PERCENTAGE = 100
GPU_MEMORY = "volcano.sh/gpu-memory"
GPU_NUMBER = "volcano.sh/gpu-number"
DEFAULT_DEVICE_SHARES = 10
"""Pods that the device plugin lets share one device by default."""
UNHEALTHY_CARDS_ANNOTATION = "volcano.sh/gpu-unhealthy-ids"
CARD_LABEL = "volcano.sh/vgpu-card"
"""Not a label of the node, but planned like one: the models of its cards."""
SHARING_MODE = "volcano.sh/vgpu-mode"
"""Annotation of pods, and planned like a label of nodes: how cards are shared."""
SHARING_MODES = ("hami-core", "mig")
_CARD_ROWS: Mapping[str, tuple[str, Literal["In", "Like", "Unlike"]]] = {
    "nvidia.com/use-gputype": (CARD_LABEL, "Like"),
    "nvidia.com/nouse-gputype": (CARD_LABEL, "Unlike"),
}
"""Annotation of a pod -> its demand on the node's cards; the first existing one counts."""
CARD_ANNOTATIONS = (*_CARD_ROWS, SHARING_MODE)
VGPU_UUID_ANNOTATIONS = ("volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid")
"""Annotations of pods that choose single cards (Volcano 1.16), which no plan does."""

_SWITCHES: Mapping[str, str] = {VGPU_MEMORY: "deviceshare.VGPUEnable", GPU_MEMORY: "deviceshare.GPUSharingEnable"}
"""Resource of shared devices -> the argument of the plugin deviceshare that lets it give out their parts."""
_HAMI_ASCEND = "deviceshare.AscendHAMiVNPUEnable"
_ASCEND_MEMORY = re.compile(r"huawei\.com/Ascend\w+-memory")


def shares_devices(scheduler: SchedulerSpec | None, resource: str) -> bool:
    """Return whether Volcano gives out the parts of such devices one by one; else it compares sums over a node. Where
    no configuration of the scheduler is known, that of the devices is taken for granted."""
    return scheduler is None or _is_on(scheduler, _SWITCHES[resource])


def _is_on(scheduler: SchedulerSpec, argument: str) -> bool:
    plugins = (plugin for plugin in scheduler.plugins if plugin.name == "deviceshare")
    return any(plugin.arguments.get(argument) is True for plugin in plugins)


def without_ascend_memory(gang: GangSpec, scheduler: SchedulerSpec | None) -> GangSpec:
    """Return the gang without the memory of parts of Ascend's NPUs, where HAMi's plugin gives them out: no node offers
    an amount of it, and Volcano leaves it out of its sums."""
    if scheduler is None or not _is_on(scheduler, _HAMI_ASCEND):
        return gang
    roles = []
    for role in gang.roles:
        counted = {name: amount for name, amount in role.pod.requests.items() if not _ASCEND_MEMORY.fullmatch(name)}
        roles.append(replace(role, pod=replace(role.pod, requests=counted)))
    return replace(gang, roles=tuple(roles))


def vgpu_request(requests: Mapping[str, Fraction]) -> VgpuRequest | None:
    """Return the virtual GPUs that a container requests; None where it names neither a number nor memory, or none of
    them."""
    if requests.get(VGPU_NUMBER) == 0 or (VGPU_NUMBER not in requests and VGPU_MEMORY not in requests):
        return None
    memory, percentage = int(requests.get(VGPU_MEMORY, 0)), int(requests.get(VGPU_MEMORY_PERCENTAGE, 0))
    return VgpuRequest(
        int(requests.get(VGPU_NUMBER, 1)),
        0 if percentage else memory,
        percentage or (0 if memory else 100),
        int(requests.get(VGPU_CORES, 0)),
    )


def with_card_rules(pod: PodSpec, annotations: Mapping[str, str]) -> PodSpec:
    """Return the pod with what its annotations ask of the cards of its node, as rows of the required node affinity."""
    if not pod.vgpu_requests:
        return pod
    rows = [Expression(SHARING_MODE, "In", (annotations[SHARING_MODE],))] if SHARING_MODE in annotations else []
    for key, (label, operator) in _CARD_ROWS.items():
        if key in annotations:
            rows.append(Expression(label, operator, tuple(annotations[key].split(","))))
            break
    return with_label_rows(pod, *rows) if rows else pod


def card_labels(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the cards in the vGPU register of a live node as labels of the node; the last card's mode counts."""
    records = _records(annotations.get(VGPU_REGISTER_ANNOTATION, ""))
    if not records:
        return {}
    mode = records[-1][5] if len(records[-1]) > 5 else ""
    models = ",".join(dict.fromkeys(fields[3] for fields in records))
    return {CARD_LABEL: models, SHARING_MODE: mode if mode in SHARING_MODES else SHARING_MODES[0]}


def vgpu_devices(devices: int, memory: int, shares: int = DEFAULT_DEVICE_SHARES) -> SharedDeviceSpec:
    """Virtual GPU devices of equal size."""
    return SharedDeviceSpec(
        VGPU_MEMORY, "", tuple((f"device-{i}", _device_amounts(memory, shares)) for i in range(devices))
    )


def _device_amounts(memory: int, shares: int) -> Amounts:
    return {VGPU_MEMORY: memory, VGPU_CORES: FULL_DEVICE_CORES, VGPU_NUMBER: shares}


def shared_devices_of(annotations: Mapping[str, str], capacity: Amounts) -> tuple[SharedDeviceSpec, ...]:
    """Return the shared devices of a live node: those of the vGPU register, or cards that share memory (each the same
    part of the node's capacity)."""
    found = []
    if records := list(_registered_devices(annotations.get(VGPU_REGISTER_ANNOTATION, ""))):
        found.append(_by_health(VGPU_MEMORY, records))
    cards = capacity.get(GPU_NUMBER, 0)
    if cards and (memory := capacity.get(GPU_MEMORY, 0) // cards):
        unhealthy = annotations.get(UNHEALTHY_CARDS_ANNOTATION, "").split(",")
        records = [(f"device-{i}", {GPU_MEMORY: memory}, str(i) not in unhealthy) for i in range(cards)]
        found.append(_by_health(GPU_MEMORY, records))
    return tuple(found)


def _by_health(resource: str, records: Sequence[tuple[str, Amounts, bool]]) -> SharedDeviceSpec:
    healthy = tuple((name, offer) for name, offer, is_healthy in records if is_healthy)
    sick = tuple((name, offer) for name, offer, is_healthy in records if not is_healthy)
    return SharedDeviceSpec(resource, "", healthy, sick)


def _records(text: str) -> list[list[str]]:
    """Return the fields of each device of a vGPU register."""
    return [fields for record in text.split(":") if len(fields := record.split(",")) >= 5]


def _registered_devices(text: str) -> Iterator[tuple[str, Amounts, bool]]:
    """Yield (id, amounts, whether it is healthy) of the devices of a vGPU register; malformed text yields none, as in
    Volcano."""
    for fields in _records(text):
        shares, memory = whole_number(fields[1]), whole_number(fields[2])
        if shares is not None and memory is not None:
            is_healthy = fields[4].lower() in ("true", "t", "1")
            yield fields[0], _device_amounts(memory, shares), is_healthy


def assigned_devices(text: str) -> list[tuple[str, Amounts]]:
    """(device, amounts) that an assignment annotation gives a pod."""
    found: list[tuple[str, Amounts]] = []
    for record in text.replace(";", ":").split(":"):
        fields = record.split(",")
        memory, cores = map(whole_number, fields[2:4]) if len(fields) >= 4 else (None, None)
        if memory is not None and cores is not None:
            found.append((fields[0], {VGPU_MEMORY: memory, VGPU_CORES: cores, VGPU_NUMBER: 1}))
    return found
