"""Parts of jobs and pods that few kinds have."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.fields.label_selector import LabelExpression
from compiler.syntax.documents import Document, FieldPath


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
    requires (`compiler.specs.exclusive_topology`). job_label, unit_label: of the pods, the job's name and the unit's.
    obstacle: why no rule of the model expresses it; empty if one may."""

    key: str
    roles: tuple[str, ...]
    size: int
    job_label: str
    unit_label: str
    path: tuple[str | int, ...]
    obstacle: str = ""


ANTI_AFFINITY_PATH = ("spec", "topologyAffinity", "podGroupAntiAffinity")
"""Path in a PodGroup."""


@dataclass(frozen=True, slots=True)
class GroupTerm:
    """A term of a PodGroup's anti-affinity, at `path` of its document: it keeps out of the domains of a tier,
    given by number or by name, that hold PodGroups whose labels match the selector. namespaces: expressions on the
    labels of their namespaces; None for the PodGroup's own.
    weight: of a preferred term; 0 for a required one."""

    selector: tuple[LabelExpression, ...]
    namespaces: tuple[LabelExpression, ...] | None
    tier: int | None
    tier_name: str | None
    path: FieldPath
    weight: int = 0


@dataclass(frozen=True, slots=True)
class PodGroupSpec:
    """The PodGroup that is written for a gang, and its required and its preferred anti-affinity."""

    document: Document
    terms: tuple[GroupTerm, ...] = ()
    wishes: tuple[GroupTerm, ...] = ()
