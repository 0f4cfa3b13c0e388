"""Pods and pod templates: the fields that decide where a pod may go and what it takes, as `compiler.specs.PodSpec`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.functional_validators import AfterValidator
from pydantic_core import PydanticCustomError

from compiler.diagnostics import Diagnostic, did_you_mean
from compiler.fields.models import FRACTION, MILLI_BYTES, MISSPELT, Open, Resources, review_metadata
from compiler.fields.quantity import amounts
from compiler.kinds.common import pod_rules
from compiler.kinds.common.pod_rules import PodAffinity, SpreadConstraint
from compiler.specs import Expression, PodSpec, RoleSpec, Taint, Term, Toleration
from compiler.syntax.documents import Document, Path
from compiler.volcano.shared_devices import PERCENTAGE, vgpu

_POD_FIELDS = """
    activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks ephemeralContainers
    evictionResponders hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets initContainers nodeName
    nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName
    schedulerName schedulingGates schedulingGroup securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace
    subdomain terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes
"""
POD_FIELDS = frozenset(_POD_FIELDS.split())
_CONTAINER_FIELDS = """
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy resources restartPolicy
    restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices
    volumeMounts workingDir targetContainerName
"""
CONTAINER_FIELDS = frozenset(_CONTAINER_FIELDS.split())
RESOURCES_FIELDS = frozenset(("claims", "limits", "requests"))
AFFINITY_FIELDS = frozenset(("nodeAffinity", "podAffinity", "podAntiAffinity"))
NODE_AFFINITY_FIELDS = frozenset(
    ("preferredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution")
)


def _whole(resources: dict[str, Fraction]) -> dict[str, Fraction]:
    for name, value in resources.items():
        if value.denominator != 1 and (name == "pods" or "/" in name):
            message = f"{name} is counted in whole numbers, not {float(value):g}"
            raise PydanticCustomError(FRACTION.code, "{message}", {"message": message, "help": "write a whole number"})
    return resources


WholeResources = Annotated[Resources, AfterValidator(_whole)]


class Requirements(Open):
    requests: WholeResources | None = None
    limits: WholeResources | None = None

    @property
    def effective(self) -> dict[str, Fraction]:
        """Requests, with limits where no request is given (Kubernetes' defaulting)."""
        return {**(self.limits or {}), **(self.requests or {})}


class Container(Open):
    name: str = ""
    resources: Requirements | None = None
    restart_policy: str | None = None

    @property
    def effective(self) -> dict[str, Fraction]:
        return self.resources.effective if self.resources else {}


class Requirement(Open):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] | None = None

    def spec(self) -> Expression:
        return Expression(self.key, self.operator, tuple(self.values or ()))


class SelectorTerm(Open):
    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Open):
    node_selector_terms: list[SelectorTerm]


class NodeAffinity(Open):
    required: NodeSelector | None = Field(None, alias="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(Open):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TolerationModel(Open):
    key: str | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class TaintModel(Open):
    key: str
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]

    def spec(self) -> Taint:
        return Taint(self.key, self.value or "", self.effect)


class Pod(Open):
    """spec of a pod."""

    containers: list[Container] = Field(min_length=1)
    init_containers: list[Container] | None = None
    overhead: Resources | None = None
    resources: Requirements | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[TolerationModel] | None = None
    scheduler_name: str | None = None
    node_name: str | None = None
    priority_class_name: str | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None


class TemplateMetadata(Open):
    annotations: dict[str, Any] | None = None
    labels: dict[str, Any] | None = None


class Template(Open):
    """A pod template. Annotations may be integers, as people write them; Kubernetes wants text, which is another rule's
    matter."""

    metadata: TemplateMetadata | None = None
    spec: Pod

    @property
    def annotations(self) -> dict[str, str]:
        return _texts(self.metadata.annotations if self.metadata else None)

    @property
    def labels(self) -> dict[str, str]:
        return _texts(self.metadata.labels if self.metadata else None)


def _texts(found: Mapping[str, Any] | None) -> dict[str, str]:
    return {
        key: str(value)
        for key, value in (found or {}).items()
        if isinstance(value, str | int) and not isinstance(value, bool)
    }


def requests(pod: Pod) -> dict[str, int]:
    """What the scheduler reserves for one pod, "pods": 1 included.

    Kubernetes' rule (k8s.io/component-helpers/resource, PodRequests): sidecars (init containers with restartPolicy
    Always) run on, so they add to the containers' sum and to every init container after them; the larger of that sum
    and the largest init step counts; requests on the pod itself replace the result for the resources they name;
    overhead is added. `PERCENTAGE` is no amount that a node has or a queue counts: it says how much memory of a device
    is meant (see `PodSpec.vgpus`).
    """
    total: dict[str, Fraction] = {}
    for container in pod.containers:
        _add(total, container.effective)
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in pod.init_containers or ():
        step = dict(sidecars)
        _add(step, container.effective)
        if container.restart_policy == "Always":
            sidecars = step
        for name, value in step.items():
            peak[name] = max(peak.get(name, Fraction(0)), value)
    _add(total, sidecars)
    total = {name: max(total.get(name, Fraction(0)), peak.get(name, Fraction(0))) for name in {*total, *peak}}
    if pod.resources:
        total.update(pod.resources.effective)
    _add(total, pod.overhead or {})
    total.pop(PERCENTAGE, None)
    return {**amounts({name: value for name, value in total.items() if value}, "up"), "pods": 1}


def _add(total: dict[str, Fraction], more: Mapping[str, Fraction]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + value


def pod_spec(pod: Pod) -> PodSpec:
    required = pod.affinity.node_affinity.required if pod.affinity and pod.affinity.node_affinity else None
    return PodSpec(
        requests=requests(pod),
        node_selector=pod.node_selector or {},
        affinity=None if required is None else tuple(_term(term) for term in required.node_selector_terms),
        tolerations=tuple(
            Toleration(t.key or "", t.operator or "Equal", t.value or "", t.effect or "") for t in pod.tolerations or ()
        ),
        scheduler=pod.scheduler_name or "",
        node_name=pod.node_name or "",
        guaranteed=_guaranteed(pod),
        vgpus=tuple(asked for container in pod.containers if (asked := vgpu(container.effective)) is not None),
        rules=pod_rules.rules(
            pod.affinity.pod_affinity if pod.affinity else None,
            pod.affinity.pod_anti_affinity if pod.affinity else None,
            pod.topology_spread_constraints,
        ),
    )


def _guaranteed(pod: Pod) -> bool:
    """Kubernetes' QoS class: every container has limits of cpu and memory, and no requests that differ from them."""
    for container in (*pod.containers, *(pod.init_containers or ())):
        limits = (container.resources.limits or {}) if container.resources else {}
        if any(not limits.get(name) or container.effective.get(name) != limits[name] for name in ("cpu", "memory")):
            return False
    return True


def _term(term: SelectorTerm) -> Term:
    return Term(
        tuple(row.spec() for row in term.match_expressions or ()), tuple(row.spec() for row in term.match_fields or ())
    )


def role(
    name: str,
    replicas: int,
    minimum: int,
    template: Template,
    path: Path,
    below: Path = ("template",),
    added: Mapping[str, str] | None = None,
) -> RoleSpec:
    """A role whose pod template stands at `path` + `below`. added: the labels that its controller gives each pod."""
    labels = {
        key: value for key, value in {**template.labels, **(added or {})}.items() if key not in pod_rules.OF_EACH_POD
    }
    return RoleSpec(
        name, replicas, minimum, pod_spec(template.spec), path, path + below, template.annotations, labels=labels
    )


def review(document: Document, template: Any, path: Path) -> Iterator[Diagnostic]:
    """Findings on the text of the pod template at `path` (or of a pod, then without its metadata) that pydantic, which
    lets unknown fields pass, does not make."""
    if not isinstance(template, dict):
        return
    if path:
        yield from review_metadata(document, template.get("metadata"), (*path, "metadata"))
    if isinstance(spec := template.get("spec"), dict):
        yield from _review_spec(document, spec, (*path, "spec"))


def _review_spec(document: Document, data: dict[str, Any], path: Path) -> Iterator[Diagnostic]:
    yield from _misspelt(document, data, path, POD_FIELDS)
    affinity = data.get("affinity")
    if isinstance(affinity, dict):
        yield from _misspelt(document, affinity, (*path, "affinity"), AFFINITY_FIELDS)
        if isinstance(affinity.get("nodeAffinity"), dict):
            yield from _misspelt(
                document, affinity["nodeAffinity"], (*path, "affinity", "nodeAffinity"), NODE_AFFINITY_FIELDS
            )
    yield from pod_rules.review(document, data, path)
    for key in ("containers", "initContainers"):
        containers = data.get(key)
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            if isinstance(container, dict):
                at = (*path, key, index)
                yield from _misspelt(document, container, at, CONTAINER_FIELDS)
                yield from _resources(document, container.get("resources"), (*at, "resources"))


def _resources(document: Document, data: Any, path: Path) -> Iterator[Diagnostic]:
    if not isinstance(data, dict):
        return
    yield from _misspelt(document, data, path, RESOURCES_FIELDS)
    for key in ("requests", "limits"):
        section = data.get(key)
        for name in ("memory", "ephemeral-storage"):
            value = section.get(name) if isinstance(section, dict) else None
            if isinstance(value, str) and value.endswith("m"):
                message = f"{name} {value} is {value[:-1]} thousandths of a byte"
                yield MILLI_BYTES.at(
                    document.at(*path, key, name), message, f"write {value[:-1]}Mi", object=document.label
                )


def _misspelt(document: Document, data: Mapping[str, Any], path: Path, known: Iterable[str]) -> Iterator[Diagnostic]:
    for key in data:
        if key not in known and (near := did_you_mean(key, known)):
            yield MISSPELT.at(
                document.at(*path, key),
                f"{key} is no field of Kubernetes here",
                f"did you mean {near!r}?",
                object=document.label,
            )
