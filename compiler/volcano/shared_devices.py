"""Devices of which pods take parts: Volcano's virtual GPUs and shared GPU memory, as nodes, pods and annotations speak
of them.

Facts: volcano-sh/volcano, pkg/scheduler/api/devices/nvidia (vgpu, gpushare). A container asks for `vgpu-number`
devices, each with `vgpu-memory` MiB (or a percentage, or all of it) and `vgpu-cores` percent; 100 percent is a device
of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from compiler.specs import Amounts, SharedSpec, VgpuAsk

NUMBER = "volcano.sh/vgpu-number"
MEMORY = "volcano.sh/vgpu-memory"
PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
CORES = "volcano.sh/vgpu-cores"
ALL_CORES = 100
SHARED_MEMORY = "volcano.sh/gpu-memory"
CARDS = "volcano.sh/gpu-number"
REGISTER = "volcano.sh/node-vgpu-register"
"""On a node: `id,shares,MiB,type,healthy,mode:` for each device."""
ASSIGNED = "volcano.sh/vgpu-ids-new"
"""On a pod: `id,type,MiB,percent:` for each device, containers divided by `;`."""
SHARES = 10
"""Pods that the device plugin lets share one device by default."""


def vgpu(requests: Mapping[str, Fraction]) -> VgpuAsk | None:
    """What a container's limits and requests together ask for; None where they name neither a number nor memory."""
    if NUMBER not in requests and MEMORY not in requests:
        return None
    memory, percentage = int(requests.get(MEMORY, 0)), int(requests.get(PERCENTAGE, 0))
    return VgpuAsk(
        int(requests.get(NUMBER, 1)), memory, percentage or (0 if memory else 100), int(requests.get(CORES, 0))
    )


def vgpu_devices(devices: int, memory: int, shares: int = SHARES) -> SharedSpec:
    """Equal devices of a node."""
    return SharedSpec(MEMORY, "", tuple((f"device-{i}", _offer(memory, shares)) for i in range(devices)))


def _offer(memory: int, shares: int) -> Amounts:
    return {MEMORY: memory, CORES: ALL_CORES, NUMBER: shares}


def shared(annotations: Mapping[str, str], allocatable: Amounts) -> tuple[SharedSpec, ...]:
    """What a live node says of its devices: the vGPU register, or cards that share memory (of each the same part of the
    sum)."""
    found = []
    if devices := tuple(_registered(annotations.get(REGISTER, ""))):
        found.append(SharedSpec(MEMORY, "", devices))
    cards = allocatable.get(CARDS, 0)
    if cards and (memory := allocatable.get(SHARED_MEMORY, 0) // cards):
        found.append(
            SharedSpec(SHARED_MEMORY, "", tuple((f"device-{i}", {SHARED_MEMORY: memory}) for i in range(cards)))
        )
    return tuple(found)


def _registered(text: str) -> Iterator[tuple[str, Amounts]]:
    """Healthy devices; a text that is none gives none, as in Volcano."""
    for record in text.split(":"):
        fields = record.split(",")
        if len(fields) >= 5 and fields[1].isdigit() and fields[2].isdigit() and fields[4].lower() in ("true", "t", "1"):
            yield fields[0], _offer(int(fields[2]), int(fields[1]))


def assigned(text: str) -> list[tuple[str, Amounts]]:
    """What a pod holds of which device."""
    found: list[tuple[str, Amounts]] = []
    for record in text.replace(";", ":").split(":"):
        fields = record.split(",")
        if len(fields) >= 4 and fields[2].isdigit() and fields[3].isdigit():
            found.append((fields[0], {MEMORY: int(fields[2]), CORES: int(fields[3]), NUMBER: 1}))
    return found
