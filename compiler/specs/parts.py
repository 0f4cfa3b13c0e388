"""Parts of jobs and pods that few kinds have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VgpuRequest:
    """One container's request for Volcano's virtual GPUs: `number` different devices, with `memory` MiB (if 0,
    `percentage` percent of the memory) and `cores` percent of each."""

    number: int
    memory: int
    percentage: int
    cores: int


@dataclass(frozen=True, slots=True)
class ExclusiveUnits:
    """Units of `size` pods of the named roles, each alone in one domain of node label `key`, as an annotation at `path`
    asks (`compiler.specs.exclusive_topology`). job_label, unit_label: of the pods, the job's name and the unit's.
    obstacle: why no rule of the model says it; empty where one may."""

    key: str
    roles: tuple[str, ...]
    size: int
    job_label: str
    unit_label: str
    path: tuple[str | int, ...]
    obstacle: str = ""
