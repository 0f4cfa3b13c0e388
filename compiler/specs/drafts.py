"""Pieces that one document alone cannot finish: hypernodes whose members are selected, pod groups whose pods are
documents of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.fields.label_selector import Row
from compiler.specs import GangSpec, PodSpec, TopologySpec
from compiler.syntax.documents import Document, Path


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of spec.members. Exactly one of name, pattern and labels is set; path: where the entry stands."""

    type: str
    path: Path
    name: str | None = None
    pattern: str | None = None
    labels: tuple[Row, ...] | None = None
    """all of which hold"""


@dataclass(frozen=True, slots=True)
class HyperNodeDraft:
    document: Document
    name: str
    tier: int
    tier_name: str | None
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class PolicyDraft:
    """One entry of spec.subGroupPolicy: it divides the pods that `selector` matches by their values of the labels
    `keys`, all of them present; without keys they are one subgroup. size, minimum: subGroupSize and minSubGroups. path:
    where the entry stands."""

    name: str
    selector: tuple[Row, ...]
    keys: tuple[str, ...]
    size: int
    minimum: int
    topology: TopologySpec
    path: Path


@dataclass(frozen=True, slots=True)
class PodGroupDraft:
    """gang: complete but for its roles and subgroups. minimums: spec.minTaskMember."""

    gang: GangSpec
    minimums: Mapping[str, int]
    policies: tuple[PolicyDraft, ...] = ()


@dataclass(frozen=True, slots=True)
class PodDraft:
    """A bare pod; group: the PodGroup that it names, None for a pod on its own. role: annotation volcano.sh/task-spec.
    labels: its own."""

    document: Document
    group: str | None
    role: str
    pod: PodSpec
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
