"""Checks of the set of objects: duplicates, and what a cluster needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.checks.check import CheckInput, Finding, check, identity_of
from compiler.kinds.kind import CLUSTER_WIDE_KINDS
from compiler.kubernetes import HOSTNAME_LABEL, RUN_ANNOTATION, SCHEDULER_NAMESPACE
from compiler.rights import DEFAULT_KINDS, kind_in_use
from compiler.specs.gang_spec import GangSpec
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec
from compiler.syntax.documents import Document


@check("GP301", "duplicate object name", on_partial=True)
def duplicate_objects(check_input: CheckInput) -> Iterator[Finding]:
    """A kind has one object of a name (and namespace) in a cluster. So have jobs of all kinds: plans and commands name
    them NAMESPACE/NAME, and controllers name pods and PodGroups after their jobs. A Volcano Job and a PyTorchJob may
    both make train-worker-0; a PyTorchJob and a TFJob share the PodGroup train. NodePools must not make a node or
    hypernode that exists already. Fix: rename or remove one."""
    seen: dict[tuple[str, str, str], Document] = {}
    for document in sorted(check_input.specs.documents, key=_written_at):
        key = f"{document.kind}.{document.group}"
        space = "" if key in CLUSTER_WIDE_KINDS else document.namespace or "default"
        first = seen.setdefault((key, space, document.name), document)
        if first is not document:
            message, help = f"{document.display_name} is here twice", "rename or remove one"
            if document.has_generated_name and first.has_generated_name:
                message += ": generateName gives the same text one name"
                help = f'remove one, give it metadata.name, or annotate it with {RUN_ANNOTATION}: "2"'
            yield Finding(document, ("metadata", "name"), message, help, (first, ("metadata", "name")))
    yield from _namesakes(check_input.specs.gangs)
    for what, items in (("node", check_input.specs.nodes), ("hypernode", check_input.specs.hypernodes)):
        yield from _duplicate_items(what, sorted(items, key=lambda item: (*_written_at(item.document), item.name)))


def _written_at(document: Document) -> tuple[str, int, int]:
    at = document.position()
    return document.file, at.line, at.column


def _namesakes(gangs: Sequence[GangSpec]) -> Iterator[Finding]:
    """Jobs of different kinds or groups with one name."""
    seen: dict[tuple[str, str], GangSpec] = {}
    for gang in sorted(gangs, key=lambda gang: _written_at(gang.document)):
        first, document = seen.setdefault((gang.namespace, gang.document.name), gang).document, gang.document
        if (first.kind, first.group) != (document.kind, document.group):
            name = f"{document.display_name} ({document.api_version})"
            message = f"{name} has the name of {first.display_name} ({first.api_version}), and both are jobs"
            place = "metadata", "name"
            yield Finding(document, place, message, "rename one", (first, place))


def _duplicate_items(what: str, items: Sequence[NodeSpec | HyperNodeSpec]) -> Iterator[Finding]:
    """Nodes or hypernodes of a NodePool that exist already, once per pair of documents."""
    first_documents: dict[str, Document] = {}
    reported = set()
    for item in items:
        first = first_documents.get(item.name)
        first_documents.setdefault(item.name, item.document)
        if (
            first is None
            or "NodePool" not in (first.kind, item.document.kind)
            or (pair := (first.identity, item.document.identity)) in reported
        ):
            continue
        reported.add(pair)
        message = f"{what} {item.name!r} is in {first.display_name} already"
        yield Finding(item.document, ("metadata", "name"), message, "use other names", (first, ("metadata", "name")))


_MOST_KINDS = 5
"""Kinds that one message names; more are counted."""


@check("GP355", "cluster without nodes", "warning")
def cluster_without_nodes(check_input: CheckInput) -> Iterator[Finding]:
    """A cluster without nodes can run nothing: every gang waits, unless a state file or the live cluster brings nodes.
    Fix: add a NodePool or Node objects to the cluster's folder."""
    if (
        not check_input.specs.nodes
        and not check_input.failed_names("NodePool.gangplan.dev")
        and not check_input.failed_names("Node.")
    ):
        message = f"cluster {check_input.specs.cluster.name!r} has no nodes"
        yield Finding(check_input.specs.cluster.document, ("metadata", "name"), message, "add them, or use --state")


@check("GP362", "node without hostname label", "warning")
def missing_hostname_labels(check_input: CheckInput) -> Iterator[Finding]:
    """Binding selects nodes by the label kubernetes.io/hostname, which kubelet sets on every node; pods cannot be bound
    to a node that lacks it or shares it. Fix: add the label to the Node."""
    for node in check_input.specs.nodes:
        if node.document.kind == "Node" and not node.labels.get(HOSTNAME_LABEL):
            message = f"node {node.name!r} has no label {HOSTNAME_LABEL}"
            yield Finding(node.document, ("metadata", "labels"), message, "add the label")


@check("GP357", "kind that the shipped RBAC permissions do not cover", "info")
def kinds_without_rights(check_input: CheckInput) -> Iterator[Finding]:
    """The RBAC permissions in `deploy/` cover the kinds that gangplan plans, priority classes, queues, hypernodes, and
    ConfigMaps in the namespace of Volcano. Without permission for a kind, or where the cluster does not serve it, its
    objects are not applied. The reconciler reports why and applies everything else. One info names all such kinds of
    the repository, at the first object of them. A kind whose CustomResourceDefinition is in the repository is left out:
    the definition itself is named. Fix: apply the permissions that `gangplan rbac` prints; where the reconciler has
    them already, or somebody else applies what is compiled, there is nothing to fix."""
    documents = sorted(check_input.specs.documents, key=_written_at)
    defined, found = set(map(_defined_kind, documents)), dict[tuple[str, str], Document]()
    for document in documents:
        kind, in_use = (document.group, document.kind), kind_in_use(document)
        is_known = in_use is None or in_use in DEFAULT_KINDS or kind in defined
        if not is_known and identity_of(document) not in check_input.failed_objects:
            found.setdefault(kind, document)
    if found:
        names = sorted(map(_kind_name, found.values()))
        shown = ", ".join(names[:_MOST_KINDS]) + (f" and {len(names) - _MOST_KINDS} more" * (len(names) > _MOST_KINDS))
        count = f"{len(names)} kinds: " if len(names) > 1 else ""
        help = "apply what `gangplan rbac` prints; without it these objects are not applied, all others are"
        first = next(iter(found.values()))
        yield Finding(first, ("kind",), f"the shipped RBAC permissions do not cover {count}{shown}", help)


def _kind_name(document: Document) -> str:
    place = f" outside of {SCHEDULER_NAMESPACE}" if (document.group, document.kind) == ("", "ConfigMap") else ""
    return f"{document.kind} of {document.group}" if document.group else f"{document.kind}{place}"


def _defined_kind(document: Document) -> tuple[str, str]:
    """API group and kind that a CustomResourceDefinition defines; empty of any other document."""
    spec = document.data.get("spec") if document.kind == "CustomResourceDefinition" else None
    if not isinstance(spec, dict) or not isinstance(spec.get("names"), dict):
        return "", ""
    return str(spec.get("group")), str(spec["names"].get("kind"))
