"""gangplan's NodePool: equal nodes and their network domains in a few lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from compiler.fields.models import (
    BAD_NAME,
    MISSING_FIELD,
    NOT_ALLOWED,
    OUT_OF_RANGE,
    OwnModel,
    Resources,
    Seconds,
    Timestamp,
)
from compiler.fields.quantity import integer_amounts
from compiler.fields.texts import dotted_path
from compiler.kinds.common.jobs import OwnObject, Positive
from compiler.kinds.kind import Kind
from compiler.kubernetes import DEFAULT_PODS_PER_NODE, HOSTNAME_LABEL, kubelet_labels
from compiler.openapi.schemas import model_schema
from compiler.openapi.shape import Flaw
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec, NumaSpec, SharedDeviceSpec
from compiler.specs.pod_spec import Amounts, Taint
from compiler.syntax.documents import Document, FieldPath
from compiler.volcano.shared_devices import CARD_LABEL, DEFAULT_DEVICE_SHARES, VGPU_MEMORY, vgpu_devices

MAX_NODES = 100_000
_NAME_RANGE = re.compile(r"([^\[\]]*)(?:\[(\d{1,9})-(\d{1,9})\]([^\[\]]*))?\Z", re.ASCII)
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")


class PoolTaint(OwnModel):
    key: str
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Tier(OwnModel):
    name: Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")] = Field(
        description="Becomes tierName and part of the names."
    )
    size: Positive | None = Field(
        None,
        description=(
            "Members of one domain: nodes in the first tier, domains of the tier below in the others. "
            "Missing: all of them."
        ),
    )


class Window(OwnModel):
    start: Timestamp = Field(description="When the nodes close: RFC 3339, such as 2026-01-31T12:00:00Z.")
    duration: Seconds = Field(description="For how long: seconds, or like 4h.", json_schema_extra={"minimum": 1})


class NumaCells(OwnModel):
    topology_manager_policy: Literal["none", "best-effort", "restricted", "single-numa-node"] = Field(
        "none", description="The kubelet's, which a task's topologyPolicy has to equal."
    )
    cpu_manager_policy: Literal["none", "static"] = Field(
        "static", description="The kubelet's; topology policies need static."
    )
    cells: list[Resources] = Field(
        min_length=1, description="What each NUMA cell offers, of the resources that it divides."
    )


class SharedDevices(OwnModel):
    resource: str = Field(
        description="By which a pod asks for a part of one device, e.g. example.com/gpu-milli, volcano.sh/vgpu-memory."
    )
    devices: Annotated[int, Field(ge=1, le=64)] = Field(description="Devices of one node.")
    each: Positive = Field(description="What one device offers of the resource.")
    whole: str | None = Field(None, description="The resource by which a pod asks for whole devices.")
    model: str | None = Field(
        None, description="Of volcano.sh/vgpu-memory only: the cards' model, by which nvidia.com/use-gputype chooses."
    )
    shares: Positive | None = Field(
        None, description="Of volcano.sh/vgpu-memory only: pods that may share one device, 10 unless given."
    )

    def to_spec(self) -> SharedDeviceSpec:
        if self.resource == VGPU_MEMORY:
            return vgpu_devices(self.devices, self.each, self.shares or DEFAULT_DEVICE_SHARES)
        return SharedDeviceSpec(
            self.resource,
            self.whole or "",
            tuple((f"device-{i}", {self.resource: self.each}) for i in range(self.devices)),
        )

    def node_amounts(self) -> Amounts:
        """Return the total that the node offers."""
        totals = {name: self.devices * amount for name, amount in self.to_spec().devices[0][1].items()}
        return {**totals, **({self.whole: self.devices} if self.whole else {})}


class Spec(OwnModel):
    count: Annotated[int, Field(ge=1, le=MAX_NODES)] | None = Field(
        None, description="Number of nodes, named <pool>-000 and so on."
    )
    names: list[str] | None = Field(None, description="Names of the nodes, instead of count; gpu-[000-255] is a range.")
    capacity: Resources = Field(description="What one node offers (allocatable). pods is 110 unless given.")
    labels: dict[str, str] | None = Field(
        None, description="Labels of each node, for selectors and affinity, added to those that every kubelet sets."
    )
    arch: Literal["amd64", "arm64", "ppc64le", "s390x", "riscv64"] = Field(
        "amd64", description="The nodes' label kubernetes.io/arch."
    )
    taints: list[PoolTaint] | None = Field(None, description="Taints of each node; pods need a toleration.")
    numa: NumaCells | None = Field(None, description="The NUMA cells of each node.")
    shared_devices: list[SharedDevices] | None = Field(
        None, description="Devices of each node of which pods take parts."
    )
    topology: list[Tier] | None = Field(
        None, description="The network domains, the tightest first: tier 1, tier 2 and so on."
    )
    maintenance: list[Window] | None = Field(
        None,
        description="When the nodes are closed; a job starts there only if it is expected to end before. Plans without "
        "--state know no time and ignore it.",
    )


class NodePool(OwnObject):
    spec: Spec


def flaws(pool: NodePool) -> Iterator[Flaw]:
    """Yield the faults of the nodes' names."""
    count, names = pool.spec.count, pool.spec.names
    if count is not None and names is not None:
        yield Flaw(("spec",), NOT_ALLOWED, "spec: count and names are both given", "keep one of the two")
    if count is None and not names:
        yield Flaw(("spec",), MISSING_FIELD, "spec: neither count nor names is given", "add one of the two")
    found = [flaw for number, text in enumerate(names or ()) for flaw in _name_flaws(text, ("spec", "names", number))]
    yield from found
    if not found and (total := sum(map(_range_size, names or ()))) > MAX_NODES:
        message, help = f"spec.names stand for {total} nodes", f"write at most {MAX_NODES}"
        yield Flaw(("spec", "names"), OUT_OF_RANGE, message, help)


def _name_flaws(text: str, path: FieldPath) -> Iterator[Flaw]:
    found = _NAME_RANGE.match(text)
    if found is None:
        help = "write a name, or one range such as gpu-[000-255]"
        yield Flaw(path, BAD_NAME, f"{dotted_path(path)}: {text!r} is neither a name nor a range", help)
        return
    head, first, last, tail = found.groups()
    example = head if first is None else f"{head}{first}{tail}"
    if not _DNS_NAME.match(example) or len(example) > 63:
        message, help = f"{example!r} is not a valid node name", "use lower-case letters, digits, - and dots"
        yield Flaw(path, BAD_NAME, f"{dotted_path(path)}: {message}", help)
    elif first is not None and int(last) < int(first):
        message, help = f"the range {first}-{last} runs backwards", f"write {last}-{first}"
        yield Flaw(path, OUT_OF_RANGE, f"{dotted_path(path)}: {message}", help)


def _range_size(text: str) -> int:
    found = _NAME_RANGE.match(text)
    return 1 if found is None or found[2] is None else int(found[3]) - int(found[2]) + 1


def expand_name_range(text: str) -> Iterator[str]:
    """gpu-[08-11] as gpu-08, gpu-09, gpu-10, gpu-11, with the width of the first number; a plain name as itself."""
    found = _NAME_RANGE.match(text)
    if found is None or found.group(2) is None:
        yield text
        return
    head, first, last, tail = found.groups()
    for number in range(int(first), int(last) + 1):
        yield f"{head}{number:0{len(first)}}{tail}"


def numbered_names(stem: str, count: int) -> list[str]:
    """stem-00 and so on, with as many digits as the last number needs, so that names sort as numbers do."""
    width = len(str(count - 1))
    return [f"{stem}-{number:0{width}}" for number in range(count)]


def specs(document: Document, pool: NodePool) -> Iterator[NodeSpec | HyperNodeSpec]:
    """Yield the nodes and hypernodes of the pool."""
    spec = pool.spec
    names = (
        numbered_names(document.name, spec.count)
        if spec.count is not None
        else [name for text in spec.names or () for name in expand_name_range(text)]
    )
    taints = tuple(Taint(taint.key, taint.value or "", taint.effect) for taint in spec.taints or ())
    devices = spec.shared_devices or ()
    allocatable = {
        "pods": DEFAULT_PODS_PER_NODE,
        **{name: amount for some in devices for name, amount in some.node_amounts().items()},
        **integer_amounts(spec.capacity, "down"),
    }
    models = [some.model for some in devices if some.model]
    given = {**kubelet_labels(spec.arch), **({CARD_LABEL: ",".join(models)} if models else {}), **(spec.labels or {})}
    numa, shared = _numa_spec(spec.numa), tuple(some.to_spec() for some in devices)
    windows = tuple(sorted((window.start, window.start + window.duration) for window in spec.maintenance or ()))
    for name in names:
        yield NodeSpec(
            document,
            name,
            {**given, HOSTNAME_LABEL: name},
            taints,
            allocatable,
            numa=numa,
            shared_devices=shared,
            maintenance_windows=windows,
        )
    below, nodes = names, True
    for index, tier in enumerate(spec.topology or ()):
        size = tier.size or len(below)
        domains = numbered_names(f"{document.name}-{tier.name}", -(-len(below) // size))
        for number, domain in enumerate(domains):
            members = tuple(sorted(below[number * size : (number + 1) * size]))
            yield HyperNodeSpec(
                document, domain, index + 1, tier.name, members if nodes else (), () if nodes else members
            )
        below, nodes = domains, False


def _numa_spec(written: NumaCells | None) -> NumaSpec | None:
    if written is None:
        return None
    cells = tuple(integer_amounts(cell, "down") for cell in written.cells)
    return NumaSpec(written.topology_manager_policy, written.cpu_manager_policy == "static", cells)


KIND = Kind(
    "NodePool", "gangplan.dev", ("v1alpha1",), NodePool, specs, schema=partial(model_schema, NodePool), flaws=flaws
)
