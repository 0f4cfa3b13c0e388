"""Additions of the API server to pods: by LimitRanges of the repository the values of containers without requests, and
its refusals; by RuntimeClasses overhead, node selector and tolerations.

Source: Kubernetes, plugin/pkg/admission/limitranger and runtimeclass, and the defaults of a LimitRange itself
(pkg/apis/core/v1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from pydantic import Field, ValidationError

from compiler.fields.models import LenientModel, Resources, below, without_nulls
from compiler.kinds.common import pods
from compiler.kinds.common.pods import TolerationModel, toleration_specs
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import value_at

Amounts = Mapping[str, Fraction]
_CONTAINERS = ("containers", "init_containers")


class Limits(LenientModel):
    """One entry of spec.limits."""

    type: str = ""
    default: Resources | None = None
    default_request: Resources | None = None
    max: Resources | None = None
    min: Resources | None = None
    max_limit_request_ratio: Resources | None = None

    @property
    def limits(self) -> Amounts:
        """Return the limits of a container without any."""
        return {**(self.max or {}), **(self.default or {})}

    @property
    def requests(self) -> Amounts:
        """Return the requests of a container without any."""
        return {**(self.min or {}), **self.limits, **(self.default_request or {})}


class Spec(LenientModel):
    limits: list[Limits]


@dataclass(frozen=True, slots=True)
class LimitRange:
    document: Document
    of_containers: tuple[Limits, ...]
    of_pods: tuple[Limits, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An amount of a container or pod at `path` that the range refuses. word: max, min or ratio. is_of_pod: the sum of
    the containers is compared."""

    path: FieldPath
    word: str
    resource: str
    bound: Fraction
    range: LimitRange
    is_of_pod: bool


def limit_ranges(documents: Iterable[Document]) -> dict[str, list[LimitRange]]:
    """Namespace -> its LimitRanges that can be read."""
    found: dict[str, list[LimitRange]] = {}
    for document in documents:
        if document.kind == "LimitRange" and not document.group:
            try:
                spec = Spec.model_validate(without_nulls(document.data.get("spec")))
            except ValidationError:  # reported at its place
                continue
            of_containers, of_pods = (
                tuple(row for row in spec.limits if row.type == name) for name in ("Container", "Pod")
            )
            here = found.setdefault(document.namespace or "default", [])
            here.append(LimitRange(document, of_containers, of_pods))
    return found


def with_default_requests(gang: GangSpec, ranges: Mapping[str, Sequence[LimitRange]]) -> GangSpec:
    """Return the job whose pods request what the LimitRanges of its namespace write into them."""
    rows = [row for each in ranges.get(gang.namespace, ()) for row in each.of_containers]
    if not rows:
        return gang
    return replace(gang, roles=tuple(_with_requests(gang, role, rows) for role in gang.roles))


def _with_requests(gang: GangSpec, role: RoleSpec, rows: Sequence[Limits]) -> RoleSpec:
    if (pod := written_pod(gang, role)) is None:
        return role
    given = {key: [_with_defaults(one, rows) for one in getattr(pod, key) or ()] for key in _CONTAINERS}
    return with_written_requests(role, pod, pod.model_copy(update=given))


def admitted_containers(
    gang: GangSpec, role: RoleSpec, ranges: Mapping[str, Sequence[LimitRange]]
) -> Iterator[pods.Container]:
    """Yield the containers of a role's pod with the defaults of its namespace; none where its template is nowhere."""
    rows, pod = [row for each in ranges.get(gang.namespace, ()) for row in each.of_containers], written_pod(gang, role)
    for key in _CONTAINERS if pod is not None else ():
        yield from (_with_defaults(one, rows) for one in getattr(pod, key) or ())


def with_written_requests(role: RoleSpec, written: pods.PodSpecModel, admitted: pods.PodSpecModel) -> RoleSpec:
    """Return the role with the requests by which the admitted pod differs from the written one."""
    before, after = pods.pod_requests(written), pods.pod_requests(admitted)
    if before == after:
        return role
    have = role.pod.requests
    requests = {
        name: have.get(name, 0) + after.get(name, 0) - before.get(name, 0) for name in dict.fromkeys((*have, *after))
    }
    return replace(role, pod=replace(role.pod, requests=requests))


def written_pod(gang: GangSpec, role: RoleSpec) -> pods.PodSpecModel | None:
    """Return the pod spec of a role; None where its template is in no document."""
    document, path = gang.pod_spec_of(role)
    written = None if role.new_template is not None else value_at(document.data, path)
    try:
        return pods.PodSpecModel.model_validate(without_nulls(written)) if isinstance(written, dict) else None
    except ValidationError:
        return None


def _with_defaults(container: pods.Container, rows: Sequence[Limits]) -> pods.Container:
    have = container.resources or pods.ResourceRequirements()
    limits, requests = dict(have.limits or {}), container.effective_requests
    for row in rows:
        limits = {**row.limits, **limits}
        requests = {**row.requests, **requests}
    written = have.model_copy(update={"limits": limits, "requests": requests})
    return container.model_copy(update={"resources": written})


def refusals(gang: GangSpec, ranges: Mapping[str, Sequence[LimitRange]]) -> Iterator[tuple[Document, Refusal]]:
    """Yield the refusals of the job's pods by the namespace's LimitRanges, with defaults written into the
    containers."""
    here = ranges.get(gang.namespace, ())
    rows = [row for each in here for row in each.of_containers]
    for role in gang.roles if here else ():
        document, path = gang.pod_spec_of(role)
        if (pod := written_pod(gang, role)) is None:
            continue
        found = [(at, _with_defaults(one, rows)) for at, one in _containers(pod, path)]
        of_pod = [_of_pod([(at[-2] == "containers", _amounts(one)[number]) for at, one in found]) for number in (0, 1)]
        for each in here:
            for at, one in found:
                for row in each.of_containers:
                    for word, name, bound in _breaches(row, *_amounts(one)):
                        yield document, Refusal(at, word, name, bound, each, is_of_pod=False)
            for row in each.of_pods:
                for word, name, bound in _breaches(row, *of_pod):
                    yield document, Refusal((*path, "containers"), word, name, bound, each, is_of_pod=True)


def _amounts(container: pods.Container) -> tuple[Amounts, Amounts]:
    """Requests and limits."""
    return container.effective_requests, (container.resources.limits if container.resources else None) or {}


def _of_pod(amounts: Iterable[tuple[bool, Amounts]]) -> Amounts:
    """Return the amounts of a pod, given whether each container runs on: those add up, an initial one needs its own
    first."""
    running, initial = dict[str, Fraction](), dict[str, Fraction]()
    for runs_on, each in amounts:
        for name, amount in each.items():
            if runs_on:
                running[name] = running.get(name, Fraction(0)) + amount
            else:
                initial[name] = max(initial.get(name, Fraction(0)), amount)
    return {name: max(running.get(name, Fraction(0)), initial.get(name, Fraction(0))) for name in {*running, *initial}}


def _breaches(row: Limits, requests: Amounts, limits: Amounts) -> Iterator[tuple[str, str, Fraction]]:
    """(max, min or ratio; resource; bound) of what the row refuses, amounts that are missing included: maxConstraint,
    minConstraint and limitRequestRatioConstraint of limitranger's admission.go."""
    for name, most in sorted((row.max or {}).items()):
        if name not in limits or max(limits[name], requests.get(name, most)) > most:
            yield "max", name, most
    for name, least in sorted((row.min or {}).items()):
        if name not in requests or min(requests[name], limits.get(name, least)) < least:
            yield "min", name, least
    for name, ratio in sorted((row.max_limit_request_ratio or {}).items()):
        asked, limit = requests.get(name, Fraction(0)), limits.get(name, Fraction(0))
        if not asked or not limit or limit > ratio * asked:
            yield "ratio", name, ratio


def _containers(pod: pods.PodSpecModel, path: FieldPath) -> Iterator[tuple[FieldPath, pods.Container]]:
    """Yield the containers of a pod spec at `path`, each with its place."""
    for field, containers in (("containers", pod.containers), ("initContainers", pod.init_containers)):
        yield from (((*path, field, number), each) for number, each in enumerate(containers or ()))


class RuntimeClass(LenientModel):
    """The fields of the object that decide on nodes and requests."""

    overhead: Resources | None = Field(None, validation_alias=below("overhead.podFixed"))
    node_selector: dict[str, str] = Field({}, validation_alias=below("scheduling.nodeSelector"))
    tolerations: list[TolerationModel] = Field([], validation_alias=below("scheduling.tolerations"))


def runtime_classes(documents: Iterable[Document]) -> dict[str, RuntimeClass]:
    """Name -> the class, if it can be read."""
    found = {}
    for document in documents:
        if document.kind == "RuntimeClass" and document.group == "node.k8s.io":
            try:
                found[document.name] = RuntimeClass.model_validate(without_nulls(document.data))
            except ValidationError:  # reported at its place
                continue
    return found


def with_runtime_classes(gang: GangSpec, classes: Mapping[str, RuntimeClass]) -> GangSpec:
    """Return the job whose pods have what their RuntimeClass writes into them."""
    return replace(gang, roles=tuple(_with_class(gang, role, classes) for role in gang.roles)) if classes else gang


def _with_class(gang: GangSpec, role: RoleSpec, classes: Mapping[str, RuntimeClass]) -> RoleSpec:
    pod = written_pod(gang, role)
    found = classes.get(pod.runtime_class_name or "") if pod is not None else None
    if pod is None or found is None:
        return role
    role = with_written_requests(role, pod, pod.model_copy(update={"overhead": found.overhead}))
    selector = {**found.node_selector, **role.pod.node_selector}
    tolerations = (*role.pod.tolerations, *toleration_specs(found.tolerations))
    return replace(role, pod=replace(role.pod, node_selector=selector, tolerations=tolerations))
