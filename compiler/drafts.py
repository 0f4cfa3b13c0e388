"""Pieces that one document alone cannot finish: hypernodes whose members are selected, pod groups whose pods are documents of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.documents import Document, Path
from compiler.specs import GangSpec, PodSpec


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of spec.members. Exactly one of name, pattern and labels is set; path: where the entry stands."""

    type: str
    path: Path
    name: str | None = None
    pattern: str | None = None
    labels: tuple[tuple[str, str, tuple[str, ...]], ...] | None = None
    """(label, operator, values), all of which hold"""


@dataclass(frozen=True, slots=True)
class HyperNodeDraft:
    document: Document
    name: str
    tier: int
    tier_name: str | None
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class PodGroupDraft:
    """gang: complete but for its roles. minimums: spec.minTaskMember."""

    gang: GangSpec
    minimums: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PodDraft:
    """A bare pod; group: the PodGroup that it names, None for a pod on its own. role: annotation volcano.sh/task-spec."""

    document: Document
    group: str | None
    role: str
    pod: PodSpec
    annotations: Mapping[str, str]
