"""Pods and pod templates: the fields that decide where a pod may run and how much it requests. Patches of a pod spec
are text, as Argo's podSpecPatch, or a mapping, as a TrainJob's overrides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.metadata import metadata_diagnostics
from compiler.fields.models import FOREIGN_GATE, LenientModel, Resources, below, without_nulls
from compiler.fields.quantity import integer_amounts
from compiler.kinds.common import pod_rule_fields
from compiler.kinds.common.jobs import time_diagnostics
from compiler.kinds.common.pod_rule_fields import AffinityTerm, SpreadConstraint
from compiler.kubernetes import NUMA_POLICIES, NUMA_POLICY_ANNOTATION, PER_POD_LABELS, REQUIRED, SCHEDULING_GATE
from compiler.specs.gang_spec import RoleSpec
from compiler.specs.pod_spec import Expression, NodeSelectorTerm, PodSpec, Taint, Toleration
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import found_paths, parse_path, value_at
from compiler.volcano.shared_devices import VGPU_MEMORY_PERCENTAGE, vgpu_request, with_card_rules

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  - no socket is bound


class ResourceRequirements(LenientModel):
    requests: Resources | None = None
    limits: Resources | None = None

    @property
    def effective_requests(self) -> dict[str, Fraction]:
        """Requests, with limits where no request is given (Kubernetes' defaulting)."""
        return {**(self.limits or {}), **(self.requests or {})}


class Container(LenientModel):
    name: str = ""
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: Any = None

    @property
    def effective_requests(self) -> dict[str, Fraction]:
        return self.resources.effective_requests if self.resources else {}


class NodeSelectorRequirement(LenientModel):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] | None = None

    def to_spec(self) -> Expression:
        return Expression(self.key, self.operator, tuple(self.values or ()))


class NodeSelectorTermModel(LenientModel):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class Affinity(LenientModel):
    """The required terms of each sort."""

    node_terms: list[NodeSelectorTermModel] | None = Field(
        default=None, validation_alias=below(f"nodeAffinity.{REQUIRED}.nodeSelectorTerms")
    )
    pod_terms: list[AffinityTerm] = Field(default_factory=list, validation_alias=below(f"podAffinity.{REQUIRED}"))
    anti_terms: list[AffinityTerm] = Field(default_factory=list, validation_alias=below(f"podAntiAffinity.{REQUIRED}"))


class TolerationModel(LenientModel):
    key: str | None = None
    operator: Literal["", "Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class TaintModel(LenientModel):
    key: str
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]

    def to_spec(self) -> Taint:
        return Taint(self.key, self.value or "", self.effect)


class Placement(LenientModel):
    """Fields of a pod spec that Argo has around its templates and in patches as well."""

    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[TolerationModel] | None = None
    scheduler_name: str | None = None


class PodSpecModel(Placement):
    """spec of a pod."""

    containers: list[Container]
    init_containers: list[Container] | None = None
    overhead: Resources | None = None
    resources: ResourceRequirements | None = None
    node_name: str | None = None
    preemption_policy: str | None = None
    priority_class_name: str | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    host_network: Any = None
    volumes: Any = None
    resource_claims: Any = None
    runtime_class_name: str | None = None


class TemplateMetadata(LenientModel):
    annotations: dict[str, Any] | None = None
    labels: dict[str, Any] | None = None


class PodTemplate(LenientModel):
    """A pod template. Annotations may be integers, as people write them; Kubernetes wants text, which is another rule's
    matter."""

    metadata: TemplateMetadata | None = None
    spec: PodSpecModel

    @property
    def annotations(self) -> dict[str, str]:
        return _text_values(self.metadata.annotations if self.metadata else None)

    @property
    def labels(self) -> dict[str, str]:
        return _text_values(self.metadata.labels if self.metadata else None)


def _text_values(labels: Mapping[str, Any] | None) -> dict[str, str]:
    """Texts and integers as text; other values are left out."""
    return {key: str(value) for key, value in (labels or {}).items() if type(value) in (str, int)}


def pod_requests(pod: PodSpecModel) -> dict[str, int]:
    """Return the amounts that the scheduler reserves for one pod, "pods": 1 included.

    Kubernetes' rule (k8s.io/component-helpers/resource, PodRequests): sidecars (init containers with restartPolicy
    Always) keep running, so they add to the containers' sum and to every later init container; the larger of that sum
    and the largest init step counts; requests on the pod itself replace the result for the resources they name;
    overhead is added. The memory percentage of virtual GPUs is not an amount of a node or queue, and is left out (see
    `PodSpec.vgpu_requests`).
    """
    total: dict[str, Fraction] = {}
    for container in pod.containers:
        _add_amounts(total, container.effective_requests)
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in pod.init_containers or ():
        step = dict(sidecars)
        _add_amounts(step, container.effective_requests)
        if container.restart_policy == "Always":
            sidecars = step
        for name, value in step.items():
            peak[name] = max(peak.get(name, Fraction(0)), value)
    _add_amounts(total, sidecars)
    for name, value in peak.items():
        total[name] = max(total.get(name, Fraction(0)), value)
    if pod.resources:
        total.update(pod.resources.effective_requests)
    _add_amounts(total, pod.overhead or {})
    total.pop(VGPU_MEMORY_PERCENTAGE, None)
    return {**integer_amounts({name: value for name, value in total.items() if value}, "up"), "pods": 1}


def _add_amounts(total: dict[str, Fraction], amounts: Mapping[str, Fraction]) -> None:
    for name, value in amounts.items():
        total[name] = total[name] + value if name in total else value


def pod_spec(pod: PodSpecModel) -> PodSpec:
    affinity = pod.affinity or Affinity()
    return PodSpec(
        requests=pod_requests(pod),
        node_selector=pod.node_selector or {},
        node_affinity=None if affinity.node_terms is None else tuple(map(_node_selector_term, affinity.node_terms)),
        tolerations=toleration_specs(pod.tolerations),
        scheduler_name=pod.scheduler_name or "",
        node_name=pod.node_name or "",
        never_preempts=pod.preemption_policy == "Never",
        priority_class=pod.priority_class_name or "",
        guaranteed_qos=_is_guaranteed_qos(pod),
        vgpu_requests=tuple(
            request
            for container in pod.containers
            if (request := vgpu_request(container.effective_requests)) is not None
        ),
        pod_rules=pod_rule_fields.pod_rule_specs(
            affinity.pod_terms, affinity.anti_terms, pod.topology_spread_constraints
        ),
        has_unplanned_needs=_has_unplanned_needs(pod),
        host_ports=_ports_of_node(pod),
        several_containers=len(pod.containers) + len(pod.init_containers or ()) > 1,
    )


def toleration_specs(written: Iterable[TolerationModel] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(each.key or "", each.operator or "Equal", each.value or "", each.effect or "")
        for each in written or ()
    )


def annotated_pod_spec(pod: PodSpecModel, annotations: Mapping[str, str]) -> PodSpec:
    """Return the pod with what Volcano's plugins read in its annotations: deviceshare of cards, numa-aware a policy."""
    found, policy = with_card_rules(pod_spec(pod), annotations), annotations.get(NUMA_POLICY_ANNOTATION, "")
    return replace(found, topology_policy=policy) if policy in NUMA_POLICIES else found


def _has_unplanned_needs(pod: PodSpecModel) -> bool:
    """Return whether it requests volumes with a claim, or devices claimed by DRA."""
    if pod.resource_claims:
        return True
    return any({"persistentVolumeClaim", "ephemeral"} & volume.keys() for volume in _mappings(pod.volumes))


def _ports_of_node(pod: PodSpecModel) -> tuple[str, ...]:
    lasting = (*pod.containers, *(each for each in pod.init_containers or () if each.restart_policy == "Always"))
    return host_ports((container.ports for container in lasting), bool(pod.host_network))


def host_ports(port_lists: Iterable[Any], host_network: bool) -> tuple[str, ...]:
    """Return the ports of its node that a pod takes, by its containers' ports; with hostNetwork all of them: 29500/TCP,
    on one address of the node also 29500/TCP@ADDRESS."""
    found = dict[str, None]()
    for port in (port for ports in port_lists for port in _mappings(ports)):
        if number := port.get("hostPort") or (port.get("containerPort") if host_network else None):
            name, address = f"{number}/{port.get('protocol') or 'TCP'}", port.get("hostIP")
            found[name] = None
            if address and address != EVERY_ADDRESS:
                found[f"{name}@{address}"] = None
    return tuple(found)


def _mappings(values: Any) -> list[dict[str, Any]]:
    """Return the mappings in a list; the schema checks everything else."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _is_guaranteed_qos(pod: PodSpecModel) -> bool:
    """Return whether every container has limits of cpu and memory, and requests equal to them (Kubernetes' QoS
    class)."""
    for container in (*pod.containers, *(pod.init_containers or ())):
        limits = (container.resources.limits or {}) if container.resources else {}
        if any(
            not limits.get(name) or container.effective_requests.get(name) != limits[name] for name in ("cpu", "memory")
        ):
            return False
    return True


def _node_selector_term(term: NodeSelectorTermModel) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(row.to_spec() for row in term.match_expressions or ()),
        tuple(row.to_spec() for row in term.match_fields or ()),
    )


def role_spec(
    name: str,
    replicas: int,
    minimum: int,
    template: PodTemplate,
    path: FieldPath,
    controller_labels: Mapping[str, str] | None = None,
) -> RoleSpec:
    """Return a role with a pod template at `path`/template. controller_labels: what its controller gives each pod."""
    labels = {
        key: value
        for key, value in {**template.labels, **(controller_labels or {})}.items()
        if key not in PER_POD_LABELS
    }
    return RoleSpec(
        name,
        replicas,
        minimum,
        annotated_pod_spec(template.spec, template.annotations),
        path,
        (*path, "template"),
        template.annotations,
        labels=labels,
    )


def job_diagnostics(templates: Iterable[str], document: Document) -> Iterator[Diagnostic]:
    """Yield findings on the text of a job: its annotations, and the pod templates to which these paths lead."""
    yield from time_diagnostics(document)
    for path in map(parse_path, templates):
        for at in found_paths(document.data, path):
            yield from template_diagnostics(document, value_at(document.data, at), at)


def template_diagnostics(document: Document, template: Any, path: FieldPath) -> Iterator[Diagnostic]:
    """Findings on the text of the pod template at `path` (or of a pod, without its metadata) that the lenient models do
    not make."""
    if not isinstance(template, dict):
        return
    if path:
        yield from metadata_diagnostics(document, template.get("metadata"), (*path, "metadata"))
    if isinstance(spec := template.get("spec"), dict):
        yield from _pod_spec_diagnostics(document, spec, (*path, "spec"))


def _pod_spec_diagnostics(document: Document, data: dict[str, Any], path: FieldPath) -> Iterator[Diagnostic]:
    yield from pod_rule_fields.pod_rule_diagnostics(document, data, path)
    yield from _gate_diagnostics(document, data.get("schedulingGates"), (*path, "schedulingGates"))


def _gate_diagnostics(document: Document, gates: Any, path: FieldPath) -> Iterator[Diagnostic]:
    for index, gate in enumerate(gates if isinstance(gates, list) else ()):
        name = gate.get("name") if isinstance(gate, dict) else None
        if isinstance(name, str) and name != SCHEDULING_GATE:
            message = f"no scheduler places the pods before the gate {name!r} is gone; the plan does not wait for it"
            yield document.diagnostic(FOREIGN_GATE, (*path, index, "name"), message, "remove it, or have it removed")


DEFAULT_CONTAINER = "main"
_PARAMETER = re.compile(r"\{\{=?\s*([\w.-]+)\s*\}\}")
_REPLACED = ("node_selector", "affinity", "tolerations", "scheduler_name", "priority_class_name", "overhead")


class PodPatch(Placement):
    """The fields of a patch that count in a plan."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    priority_class_name: str | None = None
    overhead: Resources | None = None


def pod_patch(text: str, values: Mapping[str, str]) -> PodPatch | None:
    """Return the patch with the values of its parameters; None where it cannot be read. values: by name, as
    inputs.parameters.gpus."""
    filled = _PARAMETER.sub(lambda found: values.get(found[1], found[0]), text)
    try:
        data: Any = None if "{{" in filled else yaml.safe_load(filled)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return read_patch(data) if isinstance(data, dict) else None


def read_patch(data: Mapping[str, Any]) -> PodPatch | None:
    """Return the patch in a mapping; None where it cannot be read."""
    try:
        return PodPatch.model_validate(without_nulls(data))
    except ValidationError:
        return None


def patched(pod: PodSpecModel, text: str | None, values: Mapping[str, str]) -> PodSpecModel | None:
    """Return the pod with the patch, by name of container; None without a patch that can be read."""
    patch = pod_patch(text, values) if text else None
    return None if patch is None else with_patch(pod, patch)


def with_patch(pod: PodSpecModel, patch: PodPatch) -> PodSpecModel:
    """Return the pod with the patch: node selectors and resources are merged, other fields replaced."""
    given = {name: value for name in _REPLACED if (value := getattr(patch, name)) is not None}
    if "node_selector" in given:
        given["node_selector"] = {**(pod.node_selector or {}), **given["node_selector"]}
    given["containers"] = [_with_resources(container, patch.containers) for container in pod.containers]
    given["init_containers"] = [_with_resources(one, patch.init_containers) for one in pod.init_containers or ()]
    return pod.model_copy(update=given)


def _with_resources(container: Container, patches: list[Container] | None) -> Container:
    name = container.name or DEFAULT_CONTAINER
    for patch in patches or ():
        if patch.name == name and patch.resources is not None:
            have = container.resources or ResourceRequirements()
            merged = {
                key: {**(getattr(have, key) or {}), **(getattr(patch.resources, key) or {})} or None
                for key in ("requests", "limits")
            }
            return container.model_copy(update={"resources": have.model_copy(update=merged)})
    return container
