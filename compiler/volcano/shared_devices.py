"""Shared devices: Volcano's virtual GPUs and shared GPU memory, on nodes, pods and in annotations.

Source: volcano-sh/volcano, pkg/scheduler/api/devices/nvidia (vgpu, gpushare). A container requests `vgpu-number`
devices, each with `vgpu-memory` MiB (or a percentage, or all of it) and `vgpu-cores` percent; 100 percent of the cores
is a device of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from compiler.kubernetes import VGPU_REGISTER_ANNOTATION
from compiler.specs import Amounts, SharedDeviceSpec, VgpuRequest

VGPU_NUMBER = "volcano.sh/vgpu-number"
VGPU_MEMORY = "volcano.sh/vgpu-memory"
VGPU_MEMORY_PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
VGPU_CORES = "volcano.sh/vgpu-cores"
FULL_DEVICE_CORES = 100
GPU_MEMORY = "volcano.sh/gpu-memory"
GPU_NUMBER = "volcano.sh/gpu-number"
DEFAULT_DEVICE_SHARES = 10
"""Pods that the device plugin lets share one device by default."""


def vgpu_request(requests: Mapping[str, Fraction]) -> VgpuRequest | None:
    """The virtual GPUs that a container requests; None where it names neither a number nor memory."""
    if VGPU_NUMBER not in requests and VGPU_MEMORY not in requests:
        return None
    memory, percentage = int(requests.get(VGPU_MEMORY, 0)), int(requests.get(VGPU_MEMORY_PERCENTAGE, 0))
    return VgpuRequest(
        int(requests.get(VGPU_NUMBER, 1)),
        memory,
        percentage or (0 if memory else 100),
        int(requests.get(VGPU_CORES, 0)),
    )


def vgpu_devices(devices: int, memory: int, shares: int = DEFAULT_DEVICE_SHARES) -> SharedDeviceSpec:
    """Virtual GPU devices of equal size."""
    return SharedDeviceSpec(
        VGPU_MEMORY, "", tuple((f"device-{i}", _device_amounts(memory, shares)) for i in range(devices))
    )


def _device_amounts(memory: int, shares: int) -> Amounts:
    return {VGPU_MEMORY: memory, VGPU_CORES: FULL_DEVICE_CORES, VGPU_NUMBER: shares}


def shared_devices_of(annotations: Mapping[str, str], allocatable: Amounts) -> tuple[SharedDeviceSpec, ...]:
    """The shared devices of a live node: those of the vGPU register, or cards that share memory (each the same part of
    the sum)."""
    found = []
    if devices := tuple(_registered_devices(annotations.get(VGPU_REGISTER_ANNOTATION, ""))):
        found.append(SharedDeviceSpec(VGPU_MEMORY, "", devices))
    cards = allocatable.get(GPU_NUMBER, 0)
    if cards and (memory := allocatable.get(GPU_MEMORY, 0) // cards):
        found.append(
            SharedDeviceSpec(GPU_MEMORY, "", tuple((f"device-{i}", {GPU_MEMORY: memory}) for i in range(cards)))
        )
    return tuple(found)


def _registered_devices(text: str) -> Iterator[tuple[str, Amounts]]:
    """The healthy devices of a vGPU register; malformed text yields none, as in Volcano."""
    for record in text.split(":"):
        fields = record.split(",")
        if len(fields) >= 5 and fields[1].isdigit() and fields[2].isdigit() and fields[4].lower() in ("true", "t", "1"):
            yield fields[0], _device_amounts(int(fields[2]), int(fields[1]))


def assigned_devices(text: str) -> list[tuple[str, Amounts]]:
    """(device, amounts) that an assignment annotation gives a pod."""
    found: list[tuple[str, Amounts]] = []
    for record in text.replace(";", ":").split(":"):
        fields = record.split(",")
        if len(fields) >= 4 and fields[2].isdigit() and fields[3].isdigit():
            found.append((fields[0], {VGPU_MEMORY: int(fields[2]), VGPU_CORES: int(fields[3]), VGPU_NUMBER: 1}))
    return found
