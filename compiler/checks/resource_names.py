"""Names of resources wherever a list of amounts stands: in queues, pools, quotas, and minima of pod groups."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from compiler.checks import CheckInput, Finding, check
from compiler.diagnostics import Severity, did_you_mean
from compiler.kinds.common.paths import found_paths, parse_path, value_at
from compiler.syntax.documents import Document, DocumentIdentity, FieldPath

_MIN_RESOURCES = ("spec.runPolicy.schedulingPolicy.minResources",)
_LISTS: Mapping[str, tuple[str, ...]] = {
    "JAXJob.kubeflow.org": _MIN_RESOURCES,
    "LimitRange.": tuple(f"spec.limits[].{name}" for name in ("default", "defaultRequest", "max", "min")),
    "MPIJob.kubeflow.org": _MIN_RESOURCES,
    "NodePool.gangplan.dev": ("spec.capacity", "spec.numa.cells[]"),
    "PaddleJob.kubeflow.org": _MIN_RESOURCES,
    "PodGroup.scheduling.volcano.sh": ("spec.minResources",),
    "PyTorchJob.kubeflow.org": _MIN_RESOURCES,
    "Queue.scheduling.volcano.sh": ("spec.capability", "spec.deserved", "spec.guarantee.resource"),
    "ResourceQuota.": ("spec.hard",),
    "TFJob.kubeflow.org": _MIN_RESOURCES,
    "XGBoostJob.kubeflow.org": _MIN_RESOURCES,
}
"""Kind.group -> where a mapping of resources to amounts stands."""
_PLAIN = ("cpu", "memory", "pods", "ephemeral-storage", "storage")
_PLAIN_PREFIXES = ("hugepages-", "attachable-volumes-")
_OTHER_NAMES = {"mem": "memory", "ram": "memory", "core": "cpu", "cores": "cpu", "disk": "ephemeral-storage"}
_USUAL_DEVICES = """
    nvidia.com/gpu amd.com/gpu gpu.intel.com/i915 metax-tech.com/gpu huawei.com/Ascend910 huawei.com/Ascend310P
    cambricon.com/mlu hygon.com/dcu google.com/tpu aws.amazon.com/neuron habana.ai/gaudi rdma/hca rdma/ib
    volcano.sh/vgpu-number volcano.sh/vgpu-memory volcano.sh/vgpu-memory-percentage volcano.sh/vgpu-cores
    volcano.sh/gpu-memory volcano.sh/gpu-number
"""
USUAL_DEVICES = frozenset(_USUAL_DEVICES.split())
"""Resources of common device plugins: of two names that differ by a slip, this is the right one."""
_OF_QUOTA = re.compile(r"(?:requests|limits)\.(?=[^/]+/)")
"""Before the name of a device in a ResourceQuota."""


def near_resource(name: str, known: Iterable[str]) -> str:
    """The known resource that `name` is a misspelling of, or "". Models differ in their digits, and variants have more
    at their end (nvidia.com/gpu.shared): those are no slips."""
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
    for document in check_input.specs.documents if right else ():
        for _, name in _names(document) if document.kind == "NodePool" else ():
            is_open = "/" in name and name not in asked and name not in USUAL_DEVICES
            if is_open and (near := near_resource(name, right)):
                found[name] = near
    return found


@check("GP391", "resource of a name that nothing has", "warning")
def unknown_resource_names(check_input: CheckInput) -> Iterator[Finding]:
    """A limit, share, capacity or minimum of a resource that no pod can ask for, or whose name is nearly that of a
    resource of the nodes, counts for nothing: the queue is not limited, the pool has no GPUs. It is an error where the
    name meant is known. Names without a prefix are cpu, memory, pods, ephemeral-storage and hugepages-*; devices have
    one, like nvidia.com/gpu. Mend: correct the name."""
    misspelt = misspelt_in_pools(check_input)
    offered = {name for node in check_input.specs.nodes for name in node.allocatable}
    devices = {name for name in offered if "/" in name}
    shared = {device.whole_resource for node in check_input.specs.nodes for device in node.shared_devices}
    known = (devices | shared | set(misspelt.values())) - misspelt.keys()
    clean = _clean_documents(check_input, known)
    for document in check_input.specs.documents:
        if document.identity in clean:
            continue
        for path, name in _names(document):
            near, message, is_pool = "", "", document.kind == "NodePool"
            if "/" not in name and document.kind != "ResourceQuota":
                near = _OTHER_NAMES.get(name, "") or near_resource(name, (*_PLAIN, *known))
                message = f"no pod can ask for {name!r}, so that it counts for nothing"
            elif "/" in name and is_pool:
                near = misspelt.get(name, "")
                message = f"no pod asks for {name!r}, and pods ask for {near!r}, which no node has"
            elif "/" in name and name not in known:
                near, message = near_resource(name, known), f"no node has the resource {name!r}"
            if not message or ("/" in name and not near):
                continue
            severity: Severity | None = "error" if near else None
            help = f"did you mean {near!r}?" if near else "write its full name, like nvidia.com/gpu"
            yield Finding(document, path, message, help, severity=severity)


def _clean_documents(check_input: CheckInput, known: Collection[str]) -> set[DocumentIdentity]:
    """The queues and pools whose specs hold no name that could be wrong: what is remembered of their files need
    not be read again."""
    specs, right = check_input.specs, {*known, *_PLAIN}
    clean = {queue.document.identity for queue in specs.queues} | {node.document.identity for node in specs.nodes}
    for queue in specs.queues:
        if not right.issuperset((*queue.guarantee, *queue.deserved, *queue.capability)):
            clean.discard(queue.document.identity)
    for node in specs.nodes:
        if node.numa or not right.issuperset(node.allocatable):
            clean.discard(node.document.identity)
    return clean


def _names(document: Document) -> Iterator[tuple[FieldPath, str]]:
    """The resources that a document's lists name, with their places; those that every cluster has are left out."""
    for text in _LISTS.get(f"{document.kind}.{document.group}", ()):
        for path in found_paths(document.data, parse_path(text)):
            amounts = value_at(document.data, path)
            for key in amounts if isinstance(amounts, dict) else ():
                name = _OF_QUOTA.sub("", str(key))
                if name not in _PLAIN and not name.startswith(_PLAIN_PREFIXES):
                    yield (*path, key), name
