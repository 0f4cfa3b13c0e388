"""Pieces that one document alone cannot finish: hypernodes whose members are selected, pod groups whose pods are
documents of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.fields.label_selector import LabelExpression
from compiler.specs import GangSpec, PodSpec, TopologySpec
from compiler.syntax.documents import Document, FieldPath


@dataclass(frozen=True, slots=True)
class HyperNodeMember:
    """One entry of spec.members. Exactly one of name, pattern and labels is set; path: where the entry stands."""

    type: str
    path: FieldPath
    name: str | None = None
    pattern: str | None = None
    label_expressions: tuple[LabelExpression, ...] | None = None
    """all of which hold"""


@dataclass(frozen=True, slots=True)
class HyperNodeDraft:
    document: Document
    name: str
    tier: int
    tier_name: str | None
    members: tuple[HyperNodeMember, ...]


@dataclass(frozen=True, slots=True)
class SubgroupPolicyDraft:
    """One entry of spec.subGroupPolicy: it divides the pods that `selector` matches by their values of the labels
    `keys`, all of them present; without keys they are one subgroup. size, minimum: subGroupSize and minSubGroups. path:
    where the entry stands."""

    name: str
    label_expressions: tuple[LabelExpression, ...]
    label_keys: tuple[str, ...]
    subgroup_size: int
    min_subgroups: int
    topology: TopologySpec
    path: FieldPath


@dataclass(frozen=True, slots=True)
class PodGroupDraft:
    """gang: complete but for its roles and subgroups. minimums: spec.minTaskMember."""

    gang: GangSpec
    role_minimums: Mapping[str, int]
    policies: tuple[SubgroupPolicyDraft, ...] = ()


@dataclass(frozen=True, slots=True)
class PodDraft:
    """A bare pod; group: the PodGroup that it names, None for a pod on its own. role: annotation volcano.sh/task-spec.
    labels: its own."""

    document: Document
    pod_group: str | None
    role: str
    pod: PodSpec
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
