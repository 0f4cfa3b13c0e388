"""Names of resources in every list of amounts: in queues, pools, quotas, and minima of pod groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from compiler.checks.check import CheckInput, Finding, check
from compiler.diagnostics.diagnostic import Severity, did_you_mean, meant
from compiler.kinds.common.resource_lists import PLAIN_RESOURCES
from compiler.kubernetes import HAMI_RESOURCES

_OTHER_NAMES = {"mem": "memory", "ram": "memory", "core": "cpu", "cores": "cpu", "disk": "ephemeral-storage"}
_USUAL_DEVICES = """
    nvidia.com/gpu amd.com/gpu gpu.intel.com/i915 metax-tech.com/gpu huawei.com/Ascend910 huawei.com/Ascend310P
    cambricon.com/mlu hygon.com/dcu google.com/tpu aws.amazon.com/neuron habana.ai/gaudi rdma/hca rdma/ib
    volcano.sh/vgpu-number volcano.sh/vgpu-memory volcano.sh/vgpu-memory-percentage volcano.sh/vgpu-cores
    volcano.sh/gpu-memory volcano.sh/gpu-number
"""
USUAL_DEVICES = frozenset((*_USUAL_DEVICES.split(), *HAMI_RESOURCES))
"""Resources of common device plugins: of two names that differ by a slip, this is the right one."""


def near_resource(name: str, known: Iterable[str]) -> str:
    """Return the known resource that `name` is a misspelling of, or "". Models with other digits, and variants with a
    longer name (nvidia.com/gpu.shared), are not misspellings."""
    if name in USUAL_DEVICES:
        return ""
    alike = [other for other in known if _digits(other) == _digits(name)]
    candidates = [other for other in alike if not _is_variant(name, other)]
    if near := did_you_mean(name, candidates):
        return near
    vendor, _, device = name.rpartition("/")
    same = [other for other in sorted(candidates) if other.rpartition("/")[2].rstrip("s") == device.rstrip("s")]
    return same[0] if len(same) == 1 and "." not in vendor else ""


def _is_variant(left: str, right: str) -> bool:
    """Whether one name is the other with a part more."""
    short, long = sorted((left, right), key=len)
    return long.startswith(short) and long[len(short) : len(short) + 1] in ("-", ".", "_")


def _digits(name: str) -> str:
    return "".join(character for character in name if character.isdigit())


def misspelt_in_pools(check_input: CheckInput) -> dict[str, str]:
    """Devices of NodePools that no pod asks for -> what pods do ask for, and no node offers, of nearly that name."""
    offered = {name for node in check_input.specs.nodes for name in node.allocatable}
    asked = Counter[str]()
    for gang in check_input.jobs:
        asked.update({name for role in gang.roles for name in role.pod.requests})
    devices = {name: jobs for name, jobs in asked.items() if "/" in name}
    frequent = {name for name, jobs in devices.items() if jobs > 1}
    right = (frequent | (devices.keys() & USUAL_DEVICES)) - offered
    found = {}
    for listed in check_input.listed_resources if right else ():
        for _, name in listed.names if listed.document.kind == "NodePool" else ():
            is_open = "/" in name and name not in asked and name not in USUAL_DEVICES
            if is_open and (near := near_resource(name, right)):
                found[name] = near
    return found


@check("GP391", "resource of a name that nothing has", "warning")
def unknown_resource_names(check_input: CheckInput) -> Iterator[Finding]:
    """A limit, share, capacity or minimum has no effect if no pod can request its resource. The same holds for a name
    that is nearly that of a resource of the nodes: the queue is not limited, the pool has no GPUs. It is an error where
    the name meant is known. Names without a prefix are cpu, memory, pods, ephemeral-storage and hugepages-*; devices
    have one, like nvidia.com/gpu. Fix: correct the name."""
    misspelt = misspelt_in_pools(check_input)
    offered = {name for node in check_input.specs.nodes for name in node.allocatable}
    devices = {name for name in offered if "/" in name}
    shared = {device.whole_resource for node in check_input.specs.nodes for device in node.shared_devices}
    known = (devices | shared | set(misspelt.values())) - misspelt.keys()
    for listed in check_input.listed_resources:
        document = listed.document
        for path, name in listed.names:
            near, message, is_pool = "", "", document.kind == "NodePool"
            if "/" not in name and document.kind != "ResourceQuota":
                near = _OTHER_NAMES.get(name, "") or near_resource(name, (*PLAIN_RESOURCES, *known))
                message = f"no pod can ask for {name!r}, so that it counts for nothing"
            elif "/" in name and is_pool:
                near = misspelt.get(name, "")
                message = f"no pod asks for {name!r}, and pods ask for {near!r}, which no node has"
            elif "/" in name and name not in known:
                near, message = near_resource(name, known), f"no node has the resource {name!r}"
            if not message or ("/" in name and not near):
                continue
            severity: Severity | None = "error" if near else None
            help = meant(name, near) if near else "write its full name, like nvidia.com/gpu"
            yield Finding(document, path, message, help, severity=severity)
