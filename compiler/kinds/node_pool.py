"""Our NodePool: many equal nodes, and the network domains they sit in, in a handful of lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from compiler.fields.models import BAD_NAME, MISSING_FIELD, NOT_ALLOWED, OUT_OF_RANGE, Moment, Seconds, Shape
from compiler.fields.quantity import amounts
from compiler.kinds import Kind
from compiler.kinds.common.jobs import Positive, Root
from compiler.kinds.common.pods import WholeResources
from compiler.specs import Amounts, HyperNodeSpec, NodeSpec, NumaSpec, SharedSpec, Taint
from compiler.syntax.documents import Document
from compiler.volcano.shared_devices import MEMORY, SHARES, vgpu_devices

MOST_NODES = 100_000
HOSTNAME = "kubernetes.io/hostname"
_RANGE = re.compile(r"([^\[\]]*)(?:\[(\d{1,9})-(\d{1,9})\]([^\[\]]*))?\Z", re.ASCII)
_DNS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")


class PoolTaint(Shape):
    key: str
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


def _some_time(seconds: int) -> int:
    if not seconds:
        raise _error(OUT_OF_RANGE.code, "a window of no time", "the least is 1 second")
    return seconds


class Tier(Shape):
    name: Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")] = Field(
        description="Becomes tierName and part of the names."
    )
    size: Positive | None = Field(
        None,
        description="Members of one domain: nodes in the first tier, domains of the tier below in the others. Missing: all of them.",
    )


class Window(Shape):
    start: Moment = Field(description="When the nodes close: RFC 3339, such as 2026-01-31T12:00:00Z.")
    duration: Annotated[Seconds, AfterValidator(_some_time)] = Field(description="For how long: seconds, or like 4h.")


class NumaCells(Shape):
    topology_manager_policy: Literal["none", "best-effort", "restricted", "single-numa-node"] = Field(
        "none", description="The kubelet's, which a task's topologyPolicy has to equal."
    )
    cpu_manager_policy: Literal["none", "static"] = Field(
        "static", description="The kubelet's; topology policies need static."
    )
    cells: list[WholeResources] = Field(
        min_length=1, description="What each NUMA cell offers, of the resources that it divides."
    )


class SharedDevices(Shape):
    resource: str = Field(
        description="By which a pod asks for a part of one device, e.g. example.com/gpu-milli, volcano.sh/vgpu-memory."
    )
    devices: Annotated[int, Field(ge=1, le=64)] = Field(description="Devices of one node.")
    each: Positive = Field(description="What one device offers of the resource.")
    whole: str | None = Field(None, description="The resource by which a pod asks for whole devices.")
    shares: Positive | None = Field(
        None, description="Of volcano.sh/vgpu-memory only: pods that may share one device, 10 unless given."
    )

    def spec(self) -> SharedSpec:
        if self.resource == MEMORY:
            return vgpu_devices(self.devices, self.each, self.shares or SHARES)
        return SharedSpec(
            self.resource,
            self.whole or "",
            tuple((f"device-{i}", {self.resource: self.each}) for i in range(self.devices)),
        )

    def allocatable(self) -> Amounts:
        """What the node offers in sum."""
        totals = {name: self.devices * amount for name, amount in self.spec().devices[0][1].items()}
        return {**totals, **({self.whole: self.devices} if self.whole else {})}


class Spec(Shape):
    count: Annotated[int, Field(ge=1, le=MOST_NODES)] | None = Field(
        None, description="Number of nodes, named <pool>-000 and so on."
    )
    names: list[str] | None = Field(None, description="Names of the nodes, instead of count; gpu-[000-255] is a range.")
    capacity: WholeResources = Field(description="What one node offers (allocatable). pods is 110 unless given.")
    labels: dict[str, str] | None = None
    taints: list[PoolTaint] | None = None
    numa: NumaCells | None = Field(None, description="The NUMA cells of each node.")
    shared_devices: list[SharedDevices] | None = Field(
        None, description="Devices of each node of which pods take parts."
    )
    topology: list[Tier] | None = Field(
        None, description="The network domains, the tightest first: tier 1, tier 2 and so on."
    )
    maintenance: list[Window] | None = Field(
        None, description="When the nodes are closed; a job starts there only if it is expected to end before."
    )

    @model_validator(mode="after")
    def one_way_to_name(self) -> Self:
        if self.count is not None and self.names is not None:
            raise _error(NOT_ALLOWED.code, "count and names are both given", "keep one of the two")
        if self.count is None and not self.names:
            raise _error(MISSING_FIELD.code, "neither count nor names is given", "add one of the two")
        total = 0
        for text in self.names or ():
            total += _size(text)
        if total > MOST_NODES:
            raise _error(OUT_OF_RANGE.code, f"names stand for {total} nodes", f"a pool has at most {MOST_NODES}")
        return self


class NodePool(Root):
    spec: Spec


def _error(code: str, message: str, help: str) -> PydanticCustomError:
    return PydanticCustomError(code, "{message}", {"message": message, "help": help})


def _size(text: str) -> int:
    found = _RANGE.match(text)
    if found is None:
        raise _error(
            BAD_NAME.code, f"{text!r} is neither a name nor a range", "write a name, or one range such as gpu-[000-255]"
        )
    head, first, last, tail = found.groups()
    example = head if first is None else f"{head}{first}{tail}"
    if not _DNS.match(example) or len(example) > 63:
        raise _error(
            BAD_NAME.code, f"{example!r} is not a valid node name", "use lower-case letters, digits, - and dots"
        )
    if first is not None and int(last) < int(first):
        raise _error(OUT_OF_RANGE.code, f"the range {first}-{last} runs backwards", f"write {last}-{first}")
    return 1 if first is None else int(last) - int(first) + 1


def expand(text: str) -> Iterator[str]:
    """gpu-[08-11] -> gpu-08, gpu-09, gpu-10, gpu-11; a plain name -> itself. The width of the first number is kept."""
    found = _RANGE.match(text)
    if found is None or found.group(2) is None:
        yield text
        return
    head, first, last, tail = found.groups()
    for number in range(int(first), int(last) + 1):
        yield f"{head}{number:0{len(first)}}{tail}"


def numbered(stem: str, count: int) -> list[str]:
    """stem-00 ... with as many digits as the last number needs, so that names sort as numbers do."""
    width = len(str(count - 1))
    return [f"{stem}-{number:0{width}}" for number in range(count)]


def specs(document: Document, pool: NodePool) -> Iterable[NodeSpec | HyperNodeSpec]:
    spec = pool.spec
    names = (
        numbered(document.name, spec.count)
        if spec.count is not None
        else [name for text in spec.names or () for name in expand(text)]
    )
    taints = tuple(Taint(taint.key, taint.value or "", taint.effect) for taint in spec.taints or ())
    devices = spec.shared_devices or ()
    allocatable = {
        "pods": 110,
        **{name: amount for some in devices for name, amount in some.allocatable().items()},
        **amounts(spec.capacity, "down"),
    }
    numa, shared = _numa(spec.numa), tuple(some.spec() for some in devices)
    windows = tuple(sorted((window.start, window.start + window.duration) for window in spec.maintenance or ()))
    for name in names:
        yield NodeSpec(
            document,
            name,
            {**(spec.labels or {}), HOSTNAME: name},
            taints,
            allocatable,
            numa=numa,
            shared=shared,
            maintenance=windows,
        )
    below, nodes = names, True
    for index, tier in enumerate(spec.topology or ()):
        size = tier.size or len(below)
        domains = numbered(f"{document.name}-{tier.name}", -(-len(below) // size))
        for number, domain in enumerate(domains):
            members = tuple(sorted(below[number * size : (number + 1) * size]))
            yield HyperNodeSpec(
                document, domain, index + 1, tier.name, members if nodes else (), () if nodes else members
            )
        below, nodes = domains, False


def _numa(written: NumaCells | None) -> NumaSpec | None:
    if written is None:
        return None
    cells = tuple(amounts(cell, "down") for cell in written.cells)
    return NumaSpec(written.topology_manager_policy, written.cpu_manager_policy == "static", cells)


KIND = Kind("NodePool", "gangplan.dev", ("v1alpha1",), NodePool, specs, namespaced=False)
