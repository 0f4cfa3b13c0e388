"""Volcano's PodGroup (scheduling.volcano.sh/v1beta1); its pods are separate documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import Field

from compiler.fields.label_selector import LabelSelector
from compiler.fields.models import Int, LenientModel, Resources, below
from compiler.kinds.common.jobs import NetworkTopology, job_times, time_diagnostics
from compiler.kinds.kind import Kind
from compiler.kubernetes import VOLCANO_SCHEDULER
from compiler.specs.drafts import PodGroupDraft, SubgroupPolicyDraft
from compiler.specs.gang_spec import ANTI_AFFINITY_PATH, GangSpec, GroupTerm, PodGroupSpec, Scheduling, TopologySpec
from compiler.syntax.documents import Document, FieldPath


class SubGroupPolicy(LenientModel):
    name: str | None = None
    network_topology: NetworkTopology | None = None
    sub_group_size: Int | None = None
    min_sub_groups: Int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None


class AntiAffinityTerm(LenientModel):
    pod_group_selector: LabelSelector
    namespace_selector: LabelSelector | None = None
    topology_tier_name: str | None = None
    topology_tier: Int | None = None
    weight: Int | None = None


class PodGroupAntiAffinity(LenientModel):
    required: list[AntiAffinityTerm] | None = None
    preferred: list[AntiAffinityTerm] | None = None

    def terms(self) -> Iterator[tuple[FieldPath, AntiAffinityTerm, bool]]:
        """(path in the document, term, whether it is a preferred one)"""
        for sort, found in (("required", self.required), ("preferred", self.preferred)):
            for index, term in enumerate(found or ()):
                yield (*ANTI_AFFINITY_PATH, sort, index), term, sort == "preferred"


class Spec(LenientModel):
    min_member: Int | None = None
    min_task_member: dict[str, Int] | None = None
    min_resources: Resources | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[SubGroupPolicy] | None = None
    anti_affinity: PodGroupAntiAffinity = Field(
        default=PodGroupAntiAffinity(), validation_alias=below("topologyAffinity.podGroupAntiAffinity")
    )


class PodGroup(LenientModel):
    spec: Spec = Field(default_factory=lambda: Spec())


def specs(document: Document, group: PodGroup) -> Iterable[PodGroupDraft]:
    spec = group.spec
    gang = GangSpec(
        document=document,
        queue=spec.queue or "",
        priority_class=spec.priority_class_name,
        minimum=spec.min_member or 0,
        roles=(),
        topology=spec.network_topology.to_spec() if spec.network_topology else None,
        times=job_times(document),
        field_paths={
            "queue": ("spec", "queue"),
            "minimum": ("spec", "minMember"),
            "priority_class": ("spec", "priorityClassName"),
            "topology": ("spec", "networkTopology"),
        },
        pod_group=PodGroupSpec(
            document,
            tuple(_group_terms(spec.anti_affinity, preferred=False)),
            tuple(_group_terms(spec.anti_affinity, preferred=True)),
        ),
        scheduling=Scheduling(scheduler_name=VOLCANO_SCHEDULER),
    )
    yield PodGroupDraft(
        gang,
        spec.min_task_member or {},
        tuple(_subgroup_policy(index, policy) for index, policy in enumerate(spec.sub_group_policy or ())),
    )


def _group_terms(anti_affinity: PodGroupAntiAffinity, *, preferred: bool) -> Iterator[GroupTerm]:
    for path, term, is_preferred in anti_affinity.terms():
        if is_preferred == preferred:
            namespaces = term.namespace_selector
            yield GroupTerm(
                selector=term.pod_group_selector.expressions(),
                namespaces=None if namespaces is None else namespaces.expressions(),
                tier=term.topology_tier,
                tier_name=term.topology_tier_name,
                path=path,
                weight=term.weight or 0,
            )


def _subgroup_policy(index: int, policy: SubGroupPolicy) -> SubgroupPolicyDraft:
    """Return the policy with Volcano's defaults: a subgroup is ready with its first pod, and none has to be."""
    return SubgroupPolicyDraft(
        name=policy.name or f"subgroup{index}",
        label_expressions=policy.label_selector.expressions() if policy.label_selector else (),
        label_keys=tuple(policy.match_label_keys or ()),
        subgroup_size=policy.sub_group_size or 1,
        min_subgroups=policy.min_sub_groups or 0,
        topology=policy.network_topology.to_spec() if policy.network_topology else TopologySpec("soft"),
        path=("spec", "subGroupPolicy", index),
    )


KIND = Kind("PodGroup", "scheduling.volcano.sh", ("v1beta1",), PodGroup, specs, time_diagnostics)
