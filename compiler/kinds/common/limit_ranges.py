"""LimitRanges of the repository: what the API server writes into containers without requests, and what it refuses.

Source: Kubernetes, plugin/pkg/admission/limitranger, and the defaults of a LimitRange itself (pkg/apis/core/v1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from pydantic import ValidationError

from compiler.fields.models import LenientModel
from compiler.fields.validation import without_nulls
from compiler.kinds.common import pods
from compiler.kinds.common.paths import value_at
from compiler.specs import GangSpec, RoleSpec
from compiler.syntax.documents import Document, FieldPath

Amounts = Mapping[str, Fraction]


class Limits(LenientModel):
    """One entry of spec.limits."""

    type: str = ""
    default: pods.ResourceAmounts | None = None
    default_request: pods.ResourceAmounts | None = None
    max: pods.ResourceAmounts | None = None
    min: pods.ResourceAmounts | None = None

    @property
    def limits(self) -> Amounts:
        """What a container without a limit gets."""
        return {**(self.max or {}), **(self.default or {})}

    @property
    def requests(self) -> Amounts:
        """What a container without a request gets."""
        return {**(self.min or {}), **self.limits, **(self.default_request or {})}


class Spec(LenientModel):
    limits: list[Limits]


@dataclass(frozen=True, slots=True)
class LimitRange:
    document: Document
    of_containers: tuple[Limits, ...]


@dataclass(frozen=True, slots=True)
class Excess:
    """A resource of a container at `path` that is above the range's maximum."""

    path: FieldPath
    resource: str
    most: Fraction
    range: LimitRange


def limit_ranges(documents: Iterable[Document]) -> dict[str, list[LimitRange]]:
    """Namespace -> its LimitRanges that can be read."""
    found: dict[str, list[LimitRange]] = {}
    for document in documents:
        if document.kind == "LimitRange" and not document.group:
            try:
                spec = Spec.model_validate(without_nulls(document.data.get("spec")))
            except ValidationError:  # reported where it stands
                continue
            rows = tuple(row for row in spec.limits if row.type == "Container")
            found.setdefault(document.namespace or "default", []).append(LimitRange(document, rows))
    return found


def with_default_requests(gang: GangSpec, ranges: Mapping[str, Sequence[LimitRange]]) -> GangSpec:
    """The job whose pods request what the LimitRanges of its namespace write into them."""
    rows = [row for each in ranges.get(gang.namespace, ()) for row in each.of_containers]
    if not rows:
        return gang
    return replace(gang, roles=tuple(_with_requests(gang, role, rows) for role in gang.roles))


def _with_requests(gang: GangSpec, role: RoleSpec, rows: Sequence[Limits]) -> RoleSpec:
    if (pod := _written_pod(gang, role)) is None:
        return role
    given = {
        key: [_with_defaults(one, rows) for one in getattr(pod, key) or ()] for key in ("containers", "init_containers")
    }
    before, after = pods.pod_requests(pod), pods.pod_requests(pod.model_copy(update=given))
    if before == after:
        return role
    have = role.pod.requests
    requests = {
        name: have.get(name, 0) + after.get(name, 0) - before.get(name, 0) for name in dict.fromkeys((*have, *after))
    }
    return replace(role, pod=replace(role.pod, requests=requests))


def _written_pod(gang: GangSpec, role: RoleSpec) -> pods.PodSpecModel | None:
    """The pod spec of a role; None where its template is in no document."""
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


def refused_containers(gang: GangSpec, ranges: Mapping[str, Sequence[LimitRange]]) -> Iterator[tuple[Document, Excess]]:
    """The containers that ask for more than a LimitRange of the namespace lets one ask for."""
    maxima = [(each, row.max or {}) for each in ranges.get(gang.namespace, ()) for row in each.of_containers]
    for role in gang.roles if maxima else ():
        document, path = gang.pod_spec_of(role)
        for at, container in _containers(_written_pod(gang, role), path):
            amounts = _largest(container)
            for each, most in maxima:
                above = [name for name in sorted(amounts.keys() & most) if amounts[name] > most[name]]
                yield from ((document, Excess(at, name, most[name], each)) for name in above)


def _containers(pod: pods.PodSpecModel | None, path: FieldPath) -> Iterator[tuple[FieldPath, pods.Container]]:
    """The containers of a pod spec at `path`, each with its place."""
    if pod is not None:
        for field, containers in (("containers", pod.containers), ("initContainers", pod.init_containers)):
            yield from (((*path, field, number), each) for number, each in enumerate(containers or ()))


def _largest(container: pods.Container) -> Amounts:
    limits = (container.resources.limits if container.resources else None) or {}
    return {**container.effective_requests, **limits}
