"""Checks of the set of objects: duplicates, and what a cluster needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.checks import CheckInput, Finding, check
from compiler.kubernetes import HOSTNAME_LABEL
from compiler.specs import HyperNodeSpec, NodeSpec
from compiler.syntax.documents import Document


@check("GP301", "two objects of one name")
def duplicate_objects(reading: CheckInput) -> Iterator[Finding]:
    """A kind has one object of a name (and namespace) in a cluster; NodePools must not make a node or hypernode that
    exists already. Mend: rename or remove one."""
    seen: dict[tuple[str, str, str], Document] = {}
    for document in sorted(reading.specs.documents, key=lambda d: (d.file, *_line_and_column(d))):
        key = f"{document.kind}.{document.group}"
        space = (document.namespace or "default") if reading.namespaced_kinds.get(key, True) else ""
        first = seen.setdefault((key, space, document.name), document)
        if first is not document:
            yield Finding(
                document,
                ("metadata", "name"),
                f"{document.display_name} is here twice",
                "rename or remove one",
                (first, ("metadata", "name")),
            )
    for what, items in (("node", reading.specs.nodes), ("hypernode", reading.specs.hypernodes)):
        yield from _duplicate_items(
            what, sorted(items, key=lambda item: (item.document.file, *_line_and_column(item.document), item.name))
        )


def _line_and_column(document: Document) -> tuple[int, int]:
    at = document.position()
    return at.line, at.column


def _duplicate_items(what: str, items: Sequence[NodeSpec | HyperNodeSpec]) -> Iterator[Finding]:
    """Once per pair of documents. Two plain documents of one name are found as documents."""
    made: dict[str, Document] = {}
    told = set()
    for item in items:
        first = made.get(item.name)
        made.setdefault(item.name, item.document)
        if (
            first is None
            or "NodePool" not in (first.kind, item.document.kind)
            or (pair := (first.identity, item.document.identity)) in told
        ):
            continue
        told.add(pair)
        message = f"{what} {item.name!r} is in {first.display_name} already"
        yield Finding(item.document, ("metadata", "name"), message, "use other names", (first, ("metadata", "name")))


@check("GP355", "cluster without nodes", "warning")
def cluster_without_nodes(reading: CheckInput) -> Iterator[Finding]:
    """A cluster without nodes can run nothing: every gang waits, unless a state file or the live cluster brings nodes.
    Mend: add a NodePool or Node objects to the cluster's folder."""
    if (
        not reading.specs.nodes
        and not reading.failed_names("NodePool.gangplan.dev")
        and not reading.failed_names("Node.")
    ):
        yield Finding(
            reading.specs.cluster.document,
            ("metadata", "name"),
            f"cluster {reading.specs.cluster.name!r} has no nodes",
            "add a NodePool or Nodes",
        )


@check("GP362", "node without hostname label", "warning")
def missing_hostname_labels(reading: CheckInput) -> Iterator[Finding]:
    """Binding selects nodes by the label kubernetes.io/hostname, which kubelet sets on every node; pods cannot be bound
    to a node that lacks it or shares it. Mend: add the label to the Node."""
    for node in reading.specs.nodes:
        if node.document.kind == "Node" and not node.labels.get(HOSTNAME_LABEL):
            yield Finding(
                node.document,
                ("metadata", "labels"),
                f"node {node.name!r} has no label {HOSTNAME_LABEL}",
                "add the label",
            )
