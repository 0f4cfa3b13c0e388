"""Volcano's HyperNode (topology.volcano.sh/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from compiler.fields.label_selector import LabelSelector
from compiler.fields.models import Int, LenientModel
from compiler.kinds.kind import Kind
from compiler.specs.drafts import HyperNodeDraft, HyperNodeMember
from compiler.syntax.documents import Document


class ExactMatch(LenientModel):
    name: str


class RegexMatch(LenientModel):
    pattern: str


class Selector(LenientModel):
    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class MemberModel(LenientModel):
    type: Literal["Node", "HyperNode"]
    selector: Selector


class Spec(LenientModel):
    tier: Int
    tier_name: str | None = None
    members: list[MemberModel]


class HyperNode(LenientModel):
    spec: Spec


def specs(document: Document, hypernode: HyperNode) -> Iterable[HyperNodeDraft]:
    members = tuple(_hypernode_member(member, index) for index, member in enumerate(hypernode.spec.members))
    yield HyperNodeDraft(document, document.name, hypernode.spec.tier, hypernode.spec.tier_name, members)


def _hypernode_member(member: MemberModel, index: int) -> HyperNodeMember:
    selector, labels = member.selector, member.selector.label_match
    return HyperNodeMember(
        type=member.type,
        path=("spec", "members", index),
        name=selector.exact_match.name if selector.exact_match else None,
        pattern=selector.regex_match.pattern if selector.regex_match else None,
        label_expressions=labels.expressions() if labels is not None else None,
    )


KIND = Kind("HyperNode", "topology.volcano.sh", ("v1alpha1",), HyperNode, specs)
