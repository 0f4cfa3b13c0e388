"""Volcano's Numatopology (nodeinfo.volcano.sh/v1alpha1): the CPUs and GPUs of each NUMA node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import Annotated, Any

from pydantic import Field

from compiler.fields.models import WRONG_TYPE, Int, LenientModel, Resources
from compiler.kinds.kind import Kind
from compiler.openapi.shape import Flaw
from compiler.specs.node_spec import NumaTopologySpec
from compiler.syntax.documents import Document
from compiler.volcano.numatopology import numa_spec, parse_cpu_set

Id = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]


class Detail(LenientModel):
    numa: Int | None = None
    socket: Int | None = None
    core: Int | None = None


class Resource(LenientModel):
    allocatable: str | None = None


class Spec(LenientModel):
    policies: dict[str, str] | None = None
    numares: dict[str, Resource] | None = None
    cpu_detail: dict[Id, Detail | None] | None = None
    gpu_detail: dict[Id, Detail | None] | None = None
    res_reserved: Resources | None = None


class Numatopology(LenientModel):
    spec: Spec


def specs(document: Document, found: Numatopology) -> Iterable[NumaTopologySpec]:
    spec = found.spec
    cpu = (spec.numares or {}).get("cpu")
    reserved = ceil((spec.res_reserved or {}).get("cpu", 0))
    numa = numa_spec(
        spec.policies or {},
        _detail_data(spec.cpu_detail),
        _detail_data(spec.gpu_detail),
        cpu.allocatable if cpu else None,
        reserved,
    )
    yield NumaTopologySpec(document, document.name, numa)


def _detail_data(details: dict[str, Detail | None] | None) -> dict[str, Any]:
    return {key: detail.model_dump() if detail else {} for key, detail in (details or {}).items()}


def _flaws(found: Numatopology) -> Iterator[Flaw]:
    for name, resource in (found.spec.numares or {}).items():
        try:
            parse_cpu_set(resource.allocatable or "")
        except ValueError:
            path = ("spec", "numares", name, "allocatable")
            message = f"spec.numares.{name}.allocatable: {resource.allocatable!r} is not a set of CPUs"
            yield Flaw(path, WRONG_TYPE, message, "write for example 0-31,64-95")


KIND = Kind("Numatopology", "nodeinfo.volcano.sh", ("v1alpha1",), Numatopology, specs, flaws=_flaws)
