"""Where objects list resources with amounts: limits, shares, capacities and minima."""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.kinds.kind import KIND_ROWS
from compiler.specs.drafts import ListedResources
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import found_paths, parse_path, value_at

PLAIN_RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage", "storage")
_PLAIN_PREFIXES = ("hugepages-", "attachable-volumes-")
_OF_QUOTA = re.compile(r"(?:requests|limits)\.(?=[^/]+/)")
"""Before the name of a device in a ResourceQuota."""


def listed_resources(document: Document) -> Iterator[ListedResources]:
    """Yield the resources that a document's lists name, if there are others than every cluster has."""
    if names := tuple(_names(document)):
        yield ListedResources(document, names)


def _names(document: Document) -> Iterator[tuple[FieldPath, str]]:
    for text in KIND_ROWS.get(f"{document.kind}.{document.group}", {}).get("amounts", ()):
        for path in found_paths(document.data, parse_path(text)):
            amounts = value_at(document.data, path)
            for key in amounts if isinstance(amounts, dict) else ():
                name = _OF_QUOTA.sub("", str(key))
                if name not in PLAIN_RESOURCES and not name.startswith(_PLAIN_PREFIXES):
                    yield (*path, key), name
