"""Nodes of a cluster folded into NodePools; a node that a pool cannot represent stays a Node."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any

from compiler import kubernetes as k8s
from compiler.fields.quantity import QuantityError, integer_amounts, parse_quantity
from compiler.fields.texts import natural_sort_key
from compiler.importing.written_form import Imported, written_form
from compiler.volcano.shared_devices import card_labels, shared_devices_of

POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "agentpool",
    k8s.INSTANCE_TYPE_LABEL,
)
"""Labels whose value people know a group of nodes by, the most exact first."""
MEASURED = ("memory", "ephemeral-storage")
"""Resources of which equal machines report a little more or less."""
TOLERANCE = 0.02
"""Nodes of one pool differ in a measured resource by at most this share."""
_SYSTEM_TAINTS = (k8s.NODE_CONDITION_TAINTS, "node.cloudprovider.kubernetes.io/")
_NAME = re.compile(r"(.*?)(\d{1,9})(\D*)\Z", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def fold_nodes(nodes: Iterable[k8s.Object], others_text: str) -> Imported:
    """Return the nodes as pools, in the natural order of their names. others_text: what else the repository holds,
    which may name a label."""
    ordered = sorted(nodes, key=lambda node: natural_sort_key(k8s.name_of(node)))
    own_labels = _own_labels(ordered, others_text)
    groups = defaultdict[tuple[Any, ...], list[k8s.Object]](list)
    single: list[k8s.Object] = []
    for node in ordered:
        if _fits_pool(node):
            groups[_alike_key(node, own_labels)].append(node)
        else:
            single.append(node)
    pools = [pool for group in groups.values() for pool in _of_measured_size(group)]
    taken = set[str]()
    documents = [_pool_document(pool, own_labels, taken) for pool in pools]
    documents += [_node_document(node) for node in single]
    notes = [f"the label {label} differs on every node, and nothing names it: it is left out" for label in own_labels]
    spreads = sum(len({_measured(node) for node in pool}) > 1 for pool in pools)
    if spreads:
        notes.append(
            f"the nodes of {spreads} pool{'s' if spreads > 1 else ''} differ a little in memory or storage: the least "
            "of a pool is written"
        )
    return Imported(documents, notes)


def _own_labels(nodes: Sequence[k8s.Object], others_text: str) -> tuple[str, ...]:
    """Return labels that differ on each node and that nothing names: they identify nodes, and are not a group."""
    values = defaultdict[str, list[str]](list)
    for node in nodes:
        for key, value in k8s.labels_of(node).items():
            values[key].append(value)
    values.pop(k8s.HOSTNAME_LABEL, None)

    def is_own(key: str) -> bool:
        return len(values[key]) > 2 and len(set(values[key])) == len(values[key]) and key not in others_text

    return tuple(filter(is_own, sorted(values)))


def _fits_pool(node: k8s.Object) -> bool:
    """Return whether a pool can represent the node: its hostname is its name, its amounts can be read (a check reports
    faults in those of a Node), and no annotations describe its devices."""
    annotations = {key: str(value) for key, value in k8s.annotations_of(node).items()}
    labels = k8s.labels_of(node)
    try:
        offered = integer_amounts({name: parse_quantity(amount) for name, amount in _offered(node).items()}, "down")
    except QuantityError:
        return False
    has_cards = bool(card_labels(annotations)) or bool(shared_devices_of(annotations, offered))
    is_linux = labels.get(k8s.OS_LABEL, "linux") == "linux"
    return not has_cards and is_linux and labels.get(k8s.HOSTNAME_LABEL, k8s.name_of(node)) == k8s.name_of(node)


def _offered(node: k8s.Object) -> Mapping[str, Any]:
    status = k8s.status_of(node)
    return status.get("allocatable") or status.get("capacity") or {}


def _pool_labels(node: k8s.Object, own_labels: tuple[str, ...]) -> dict[str, str]:
    """Return the labels that a pool has to state: neither the kubelet's nor the node's own."""
    labels = k8s.labels_of(node)
    implied = k8s.kubelet_labels(labels.get(k8s.ARCH_LABEL, "amd64"))
    left_out = {k8s.HOSTNAME_LABEL, *own_labels, *(key for key in implied if labels.get(key) == implied[key])}
    return {key: labels[key] for key in sorted(labels.keys() - left_out)}


def _taints(node: k8s.Object) -> list[dict[str, Any]]:
    """Return the taints that people set; those of conditions come and go by themselves."""
    rows = (node.get("spec") or {}).get("taints") or ()
    kept = [row for row in rows if not str(row.get("key")).startswith(_SYSTEM_TAINTS)]
    return [{key: row[key] for key in ("key", "value", "effect") if row.get(key)} for row in kept]


def _alike_key(node: k8s.Object, own_labels: tuple[str, ...]) -> tuple[Any, ...]:
    exact = [(name, parse_quantity(amount)) for name, amount in _offered(node).items() if name not in MEASURED]
    return (
        tuple(sorted(exact)),
        tuple(_pool_labels(node, own_labels).items()),
        tuple(tuple(taint.items()) for taint in _taints(node)),
        k8s.labels_of(node).get(k8s.ARCH_LABEL, "amd64"),
        tuple(name for name in MEASURED if name in _offered(node)),
    )


def _measured(node: k8s.Object) -> tuple[Any, ...]:
    return tuple(parse_quantity(_offered(node).get(name, 0)) for name in MEASURED)


def _of_measured_size(group: Sequence[k8s.Object]) -> list[list[k8s.Object]]:
    """Return the group in parts whose measured resources are within the tolerance, in the order of their first
    nodes."""
    parts: list[list[k8s.Object]] = []
    for node in sorted(group, key=_measured):
        least = _measured(parts[-1][0]) if parts else ()
        if parts and all(of <= one * (1 + TOLERANCE) for one, of in zip(least, _measured(node), strict=True)):
            parts[-1].append(node)
        else:
            parts.append([node])
    for part in parts:
        part.sort(key=lambda node: natural_sort_key(k8s.name_of(node)))
    return sorted(parts, key=lambda part: natural_sort_key(k8s.name_of(part[0])))


def _pool_document(pool: Sequence[k8s.Object], own_labels: tuple[str, ...], taken: set[str]) -> dict[str, Any]:
    first = pool[0]
    capacity = {
        name: min((_offered(node)[name] for node in pool), key=parse_quantity) if name in MEASURED else amount
        for name, amount in sorted(_offered(first).items())
        if parse_quantity(amount) != (k8s.DEFAULT_PODS_PER_NODE if name == "pods" else 0)
    }
    spec: dict[str, Any] = {"names": name_ranges([k8s.name_of(node) for node in pool]), "capacity": capacity}
    if labels := _pool_labels(first, own_labels):
        spec["labels"] = labels
    if (arch := k8s.labels_of(first).get(k8s.ARCH_LABEL, "amd64")) != "amd64":
        spec["arch"] = arch
    if taints := _taints(first):
        spec["taints"] = taints
    stem = _pool_name(first)
    name = next(name for name in chain([stem], (f"{stem}-{number}" for number in count(2))) if name not in taken)
    taken.add(name)
    return {"apiVersion": k8s.API_VERSION, "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def _pool_name(node: k8s.Object) -> str:
    labels, found = k8s.labels_of(node), _NAME.match(k8s.name_of(node))
    stem = next((labels[key] for key in POOL_LABELS if labels.get(key)), found[1] if found else k8s.name_of(node))
    return _NOT_IN_NAMES.sub("-", stem.lower()).strip("-")[:50].strip("-") or "nodes"


def name_ranges(names: Iterable[str]) -> list[str]:
    """Names in natural order as a NodePool takes them: neighbours as gpu-[000-255], with the width of their numbers."""
    found: list[str] = []
    run: list[str] = []

    def end_run() -> None:
        if len(run) == 1:
            found.append(run[0])
        elif run:
            (head, first, tail), last = _parts(run[0]), _parts(run[-1])[1]
            found.append(f"{head}[{first}-{last}]{tail}")
        run.clear()

    for name in names:
        if run and name != _next_name(run[-1], len(_parts(run[0])[1])):
            end_run()
        run.append(name)
    end_run()
    return found


def _parts(name: str) -> tuple[str, str, str]:
    """Return the text before the last number of the first label of a name, the number, and the rest."""
    host, dot, domain = name.partition(".")
    found = _NAME.match(host)
    return (found[1], found[2], f"{found[3]}{dot}{domain}") if found else (name, "", "")


def _next_name(name: str, width: int) -> str:
    head, number, tail = _parts(name)
    return f"{head}{int(number) + 1:0{width}}{tail}" if number else ""


def _node_document(node: k8s.Object) -> dict[str, Any]:
    """Return the node as an object, with its amounts in its status."""
    found = written_form(node)
    spec = {"taints": _taints(node)} if _taints(node) else {}
    status = {key: k8s.status_of(node)[key] for key in ("capacity", "allocatable") if key in k8s.status_of(node)}
    return {**{key: found[key] for key in ("apiVersion", "kind", "metadata")}, "spec": spec, "status": status}
