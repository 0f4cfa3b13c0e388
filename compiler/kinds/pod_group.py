"""Volcano's PodGroup (scheduling.volcano.sh/v1beta1); its pods are documents of their own."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from compiler.fields.label_selector import LabelSelector
from compiler.fields.models import Name, Shape
from compiler.kinds import Kind
from compiler.kinds.common.jobs import VOLCANO, Natural, NetworkTopology, Positive, Root, review_times, times
from compiler.kinds.common.pods import WholeResources
from compiler.specs import GangSpec, TopologySpec
from compiler.specs.drafts import PodGroupDraft, PolicyDraft
from compiler.syntax.documents import Document


class SubGroupPolicy(Shape):
    name: str | None = None
    network_topology: NetworkTopology | None = None
    sub_group_size: Positive | None = None
    min_sub_groups: Natural | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None


class Spec(Shape):
    min_member: Natural | None = None
    min_task_member: dict[str, Natural] | None = None
    min_resources: WholeResources | None = None
    queue: Name | None = None
    priority_class_name: Name | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[SubGroupPolicy] | None = None


class PodGroup(Root):
    spec: Spec = Field(default_factory=lambda: Spec())


def specs(document: Document, group: PodGroup) -> Iterable[PodGroupDraft]:
    spec = group.spec
    submitted, expected = times(document)
    gang = GangSpec(
        document=document,
        queue=spec.queue or "",
        priority_class=spec.priority_class_name,
        minimum=spec.min_member or 0,
        roles=(),
        topology=spec.network_topology.spec() if spec.network_topology else None,
        submitted_at=submitted,
        expected_duration=expected,
        paths={
            "queue": ("spec", "queue"),
            "minimum": ("spec", "minMember"),
            "priority_class": ("spec", "priorityClassName"),
            "topology": ("spec", "networkTopology"),
        },
        scheduler=VOLCANO,
    )
    yield PodGroupDraft(
        gang,
        spec.min_task_member or {},
        tuple(_policy(index, policy) for index, policy in enumerate(spec.sub_group_policy or ())),
    )


def _policy(index: int, policy: SubGroupPolicy) -> PolicyDraft:
    """With Volcano's defaults: a subgroup is ready with its first pod, and none need be."""
    return PolicyDraft(
        name=policy.name or f"subgroup{index}",
        selector=policy.label_selector.rows() if policy.label_selector else (),
        keys=tuple(policy.match_label_keys or ()),
        size=policy.sub_group_size or 1,
        minimum=policy.min_sub_groups or 0,
        topology=policy.network_topology.spec() if policy.network_topology else TopologySpec("soft"),
        path=("spec", "subGroupPolicy", index),
    )


KIND = Kind("PodGroup", "scheduling.volcano.sh", ("v1beta1",), PodGroup, specs, review_times)
