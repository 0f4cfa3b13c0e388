"""Volcano's Numatopology (nodeinfo.volcano.sh/v1alpha1): the CPUs and GPUs of each NUMA node."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from compiler.fields.models import WRONG_TYPE, Int, LenientModel, Resources
from compiler.kinds.common.jobs import Metadata
from compiler.kinds.kind import Kind
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

    @field_validator("allocatable")
    @classmethod
    def require_cpu_set(cls, value: str | None) -> str | None:
        try:
            parse_cpu_set(value or "")
        except ValueError:
            message, help = f"{value!r} is no set of CPUs", "write for example 0-31,64-95"
            raise PydanticCustomError(WRONG_TYPE.code, "{message}", {"message": message, "help": help}) from None
        return value


class Spec(LenientModel):
    policies: dict[str, str] | None = None
    numares: dict[str, Resource] | None = None
    cpu_detail: dict[Id, Detail | None] | None = None
    gpu_detail: dict[Id, Detail | None] | None = None
    res_reserved: Resources | None = None


class Numatopology(LenientModel):
    metadata: Metadata
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


KIND = Kind("Numatopology", "nodeinfo.volcano.sh", ("v1alpha1",), Numatopology, specs)
