"""Drafts: specs that other documents complete, such as hypernodes with selected members and pod groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.fields.label_selector import LabelExpression
from compiler.specs.gang_spec import GangSpec, TopologySpec
from compiler.specs.pod_spec import PodSpec
from compiler.syntax.documents import Document, FieldPath


@dataclass(frozen=True, slots=True)
class HyperNodeMember:
    """One entry of spec.members at `path`. Valid with exactly one of name, pattern and label_expressions (all must
    hold)."""

    type: str
    path: FieldPath
    name: str | None = None
    pattern: str | None = None
    label_expressions: tuple[LabelExpression, ...] | None = None
    """all of which hold"""


@dataclass(frozen=True, slots=True)
class HyperNodeDraft:
    """A HyperNode before its members are resolved."""

    document: Document
    name: str
    tier: int
    tier_name: str | None
    members: tuple[HyperNodeMember, ...]


@dataclass(frozen=True, slots=True)
class SubgroupPolicyDraft:
    """One entry of spec.subGroupPolicy, at `path`. It groups the pods that all `label_expressions` match by the values
    of `label_keys`, each of which a pod must have; without keys they form one subgroup."""

    name: str
    label_expressions: tuple[LabelExpression, ...]
    label_keys: tuple[str, ...]
    subgroup_size: int
    min_subgroups: int
    topology: TopologySpec
    path: FieldPath


@dataclass(frozen=True, slots=True)
class PodGroupDraft:
    """A PodGroup: its gang without roles and subgroups, its roles' minima (spec.minTaskMember), and its policies."""

    gang: GangSpec
    role_minimums: Mapping[str, int]
    policies: tuple[SubgroupPolicyDraft, ...] = ()


@dataclass(frozen=True, slots=True)
class PodDraft:
    """A pod of a PodGroup, which it names. role: annotation volcano.sh/task-spec."""

    document: Document
    pod_group: str
    role: str
    pod: PodSpec
    annotations: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JobTemplateDraft:
    """A JobTemplate: the gang of a Job that is made from it."""

    document: Document
    gang: GangSpec


@dataclass(frozen=True, slots=True)
class InnerJob:
    """The gang of a job that a controller makes of a part of another object: it is checked, and not planned."""

    gang: GangSpec


@dataclass(frozen=True, slots=True)
class HyperJobDraft:
    """A HyperJob: the gang of all of its Jobs, of which some may be for other clusters."""

    gang: GangSpec


@dataclass(frozen=True, slots=True)
class JobFlowDraft:
    """A JobFlow. steps: name of a step, which is its template's -> the steps that it waits for."""

    document: Document
    steps: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class PrivilegedContainers:
    """Where an object makes containers privileged: the path of each pod template, and that of the field below it."""

    document: Document
    places: tuple[tuple[FieldPath, FieldPath], ...]


DatedField = tuple[FieldPath, str | tuple[str, str]]
"""(path, name): of a field of pods, or (plugin, flag) of a job."""


@dataclass(frozen=True, slots=True)
class DatedFields:
    """Fields of an object that only some releases of Volcano read."""

    document: Document
    fields: tuple[DatedField, ...]


@dataclass(frozen=True, slots=True)
class ListedResources:
    """The devices and unusual resources that an object's lists of amounts name: (path, name) of each."""

    document: Document
    names: tuple[tuple[FieldPath, str], ...]
