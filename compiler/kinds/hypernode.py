"""Volcano's HyperNode (topology.volcano.sh/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from compiler.fields.label_selector import LabelSelector
from compiler.fields.models import Int, LenientModel, below
from compiler.kinds.kind import Kind
from compiler.specs.drafts import HyperNodeDraft, HyperNodeMember
from compiler.syntax.documents import Document


class MemberModel(LenientModel):
    type: Literal["Node", "HyperNode"]
    name: str | None = Field(None, validation_alias=below("selector.exactMatch.name"))
    pattern: str | None = Field(None, validation_alias=below("selector.regexMatch.pattern"))
    labels: LabelSelector | None = Field(None, validation_alias=below("selector.labelMatch"))


class HyperNode(LenientModel):
    tier: Int = Field(validation_alias=below("spec.tier"))
    tier_name: str | None = Field(None, validation_alias=below("spec.tierName"))
    members: list[MemberModel] = Field(validation_alias=below("spec.members"))


def specs(document: Document, hypernode: HyperNode) -> Iterable[HyperNodeDraft]:
    members = []
    for index, member in enumerate(hypernode.members):
        labels = None if member.labels is None else member.labels.expressions()
        path = ("spec", "members", index)
        members.append(HyperNodeMember(member.type, path, member.name, member.pattern, labels))
    yield HyperNodeDraft(document, document.name, hypernode.tier, hypernode.tier_name, tuple(members))


KIND = Kind("HyperNode", "topology.volcano.sh", ("v1alpha1",), HyperNode, specs)
