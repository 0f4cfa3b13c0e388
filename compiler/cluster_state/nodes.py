"""Nodes and hypernodes of a cluster: what the state shows of them, completed by what the repository declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pydantic import ValidationError

from compiler.cluster_state.cluster_state import STATE_SOURCE, ClusterState, StateError
from compiler.fields.quantity import QuantityError, integer_amounts, parse_quantity
from compiler.fields.texts import natural_sort_key
from compiler.kinds.hypernode import KIND as HYPERNODE
from compiler.kinds.numatopology import KIND as NUMATOPOLOGY
from compiler.kubernetes import Object, annotations_of, is_ready_node, labels_of, name_of, status_of
from compiler.specs.cluster_spec import Specs
from compiler.specs.drafts import HyperNodeDraft
from compiler.specs.hypernode_tree import CONTRADICTIONS, resolve_hypernodes
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec, NumaTopologySpec
from compiler.specs.pod_spec import Amounts, Taint
from compiler.syntax.documents import Document
from compiler.volcano.numatopology import with_numa_topologies
from compiler.volcano.shared_devices import CARD_LABEL, SHARING_MODE, card_labels, shared_devices_of


def observed_nodes(declared: Sequence[NodeSpec], state: ClusterState) -> tuple[NodeSpec, ...]:
    """Return the cluster's nodes, sorted by name; the declared ones if the state shows none.

    The state decides which nodes exist, and their labels, taints and allocatable amounts.
    """
    if not state.nodes:
        return tuple(declared)
    inputs = tuple(declared), state.nodes, state.numatopologies
    return state.session.last("nodes", inputs, lambda: _observed_nodes(declared, state))


def _observed_nodes(declared: Sequence[NodeSpec], state: ClusterState) -> tuple[NodeSpec, ...]:
    declared_by_name = {node.name: node for node in declared}
    names_in_state = (name for name, _ in state.node_facts)
    pairs = ((node, declared_by_name.get(name)) for node, name in zip(state.nodes, names_in_state, strict=True))
    topologies = map(numa_topology_spec, state.numatopologies)
    nodes = with_numa_topologies(state.session.each("node", pairs, observed_node), topologies)
    return tuple(sorted(nodes, key=lambda node: natural_sort_key(node.name)))


def unready_nodes(state: ClusterState) -> frozenset[str]:
    """Return the names of the nodes that are not ready."""
    return frozenset(name for name, is_ready in state.node_facts if not is_ready)


def observed_hypernodes(specs: Specs, state: ClusterState, nodes: Sequence[NodeSpec]) -> tuple[HyperNodeSpec, ...]:
    """Return the declared tree, its selectors applied to the nodes that exist; the cluster's own tree if none is
    declared. A hypernode that contradicts others is left out, as one of a file is: a server takes it."""
    declared = [spec for spec in specs.hypernodes if spec.document.kind == HYPERNODE.name]
    from_pools = [spec for spec in specs.hypernodes if spec.document.kind != HYPERNODE.name]
    if not state.nodes or (from_pools and not declared):
        return specs.hypernodes
    documents = [spec.document for spec in declared]
    if not specs.hypernodes:
        documents = [state_document(found) for found in state.hypernodes]
    drafts = [draft for document in documents for draft in drafts_of_hypernode(document)]
    resolved, problems = resolve_hypernodes(drafts, from_pools, nodes)
    if broken := [id(each.document) for each in problems if each.code in CONTRADICTIONS]:
        sound = (draft for draft in drafts if id(draft.document) not in broken)
        resolved, _ = resolve_hypernodes(sound, from_pools, nodes)
    return tuple(sorted(resolved, key=lambda spec: natural_sort_key(spec.name)))


def drafts_of_hypernode(document: Document) -> tuple[HyperNodeDraft, ...]:
    """Return the domain that a HyperNode is. Raises StateError."""
    try:
        drafts: Any = HYPERNODE.specs(document, HYPERNODE.read(document))
        return tuple(drafts)
    except ValidationError as error:
        raise StateError(f"a HyperNode of the state cannot be read: {error.errors()[0]['msg']}") from error


def numa_topology_spec(found: Object) -> NumaTopologySpec:
    """Return the NUMA nodes that a Numatopology of the cluster names. Raises StateError."""
    document = state_document(found)
    try:
        (spec,) = NUMATOPOLOGY.specs(document, NUMATOPOLOGY.read(document))
    except ValidationError as error:
        raise StateError(
            f"Numatopology {name_of(found)} of the state cannot be read: {error.errors()[0]['msg']}"
        ) from error
    return cast(NumaTopologySpec, spec)


def state_document(found: Object) -> Document:
    """Return an object of the cluster in the place of one of a file."""
    return Document(STATE_SOURCE, 1, "", dict(found), {})


def observed_node(found: Object, declared: NodeSpec | None = None) -> NodeSpec:
    """Return a node of the cluster, completed by the one that is declared. Raises StateError."""
    allocatable = declared.allocatable if declared else {}
    if status_of(found).get("allocatable"):
        allocatable = offered_amounts(found)
    capacity = offered_amounts(found, "capacity") if status_of(found).get("capacity") else allocatable
    devices = shared_devices_of(annotations_of(found), capacity)
    cards = card_labels(annotations_of(found)) or _declared_cards(declared)
    return NodeSpec(
        document=declared.document if declared else state_document(found),
        name=name_of(found),
        labels={**{str(key): str(value) for key, value in labels_of(found).items()}, **cards},
        taints=tuple(_taints(found)),
        allocatable=allocatable,
        unschedulable=bool((found.get("spec") or {}).get("unschedulable")) or not is_ready_node(found),
        maintenance_windows=declared.maintenance_windows if declared else (),
        numa=declared.numa if declared else None,
        shared_devices=devices or (declared.shared_devices if declared else ()),
    )


def _declared_cards(declared: NodeSpec | None) -> dict[str, str]:
    """Return the cards of its nodes that a pool declares, for as long as no register has them."""
    labels = declared.labels if declared else {}
    return {key: labels[key] for key in (CARD_LABEL, SHARING_MODE) if key in labels}


def _taints(found: Object) -> Iterator[Taint]:
    for taint in (found.get("spec") or {}).get("taints") or ():
        if taint.get("key") and taint.get("effect"):
            yield Taint(taint["key"], taint.get("value") or "", taint["effect"])


def offered_amounts(node: Object, field: str = "allocatable") -> Amounts:
    """Return the amounts that the node offers. Raises StateError."""
    offered = node["status"][field]
    try:
        return integer_amounts({name: parse_quantity(value) for name, value in offered.items()}, "down")
    except QuantityError as error:
        raise StateError(f"Node {name_of(node)} of the state, status.{field}: {error}") from error
