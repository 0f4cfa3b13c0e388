"""Where objects list resources with amounts: limits, shares, capacities and minima."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from compiler.specs.drafts import ListedResources
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import found_paths, parse_path, value_at

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
"""Kind.group -> the places of mappings of resources to amounts."""
PLAIN_RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage", "storage")
_PLAIN_PREFIXES = ("hugepages-", "attachable-volumes-")
_OF_QUOTA = re.compile(r"(?:requests|limits)\.(?=[^/]+/)")
"""Before the name of a device in a ResourceQuota."""


def listed_resources(document: Document) -> Iterator[ListedResources]:
    """Yield the resources that a document's lists name, if there are others than every cluster has."""
    if names := tuple(_names(document)):
        yield ListedResources(document, names)


def _names(document: Document) -> Iterator[tuple[FieldPath, str]]:
    for text in _LISTS.get(f"{document.kind}.{document.group}", ()):
        for path in found_paths(document.data, parse_path(text)):
            amounts = value_at(document.data, path)
            for key in amounts if isinstance(amounts, dict) else ():
                name = _OF_QUOTA.sub("", str(key))
                if name not in PLAIN_RESOURCES and not name.startswith(_PLAIN_PREFIXES):
                    yield (*path, key), name
