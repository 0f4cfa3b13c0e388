"""Which NamespaceQueues of Volcano 1.16 become ready, by the conditions that its controller evaluates.

Source: namespacequeue_controller_action.go and namespacequeue_controller_validation.go of Volcano 1.16's branch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.fields.quantity import exact_amount
from compiler.kubernetes import DEFAULT_QUEUE, ROOT_QUEUE
from compiler.specs.queue_spec import QueueSpec

ALL_NAMESPACES = "*"
CLUSTER_PREFIX = "cluster/"
"""The prefix of a parent that is a Queue of the cluster."""
OWN_NAMESPACE = "namespace"
"""The prefix of a NamespaceQueue's name in a workload."""
MAX_DEPTH = 5
"""Levels of NamespaceQueues below a cluster's Queue (--max-namespacequeue-depth)."""


def queue_name(namespace: str, name: str) -> str:
    """Return the name by which Volcano's scheduler knows a NamespaceQueue."""
    return f"{namespace}/{name}"


def workload_queue(namespace: str, written: str) -> str:
    """Return the name of the queue that a workload of this namespace means: namespace/NAME, the first word as it is, is
    a NamespaceQueue of its own namespace. Source: pkg/util/queue_reference.go of Volcano 1.16's branch."""
    prefix, slash, name = written.partition("/")
    return queue_name(namespace, name) if slash and prefix == OWN_NAMESPACE else written


def names_no_queue(written: str) -> bool:
    """Return whether this text, as the queue of a workload, can name none: it is NAME or namespace/NAME."""
    prefix, slash, name = written.partition("/")
    return bool(slash) and (prefix != OWN_NAMESPACE or "/" in name)


def parent_name(namespace: str, parent: str | None) -> str:
    """Return the name of the queue that spec.parent of a NamespaceQueue of this namespace means."""
    if parent is None:
        return DEFAULT_QUEUE
    return parent.removeprefix(CLUSTER_PREFIX) if parent.startswith(CLUSTER_PREFIX) else queue_name(namespace, parent)


@dataclass(frozen=True, slots=True)
class NotReady:
    """Why a NamespaceQueue is not ready. reason: as of its condition Ready. refused: admission refuses the object."""

    reason: str
    text: str
    refused: bool = False


def queues_not_ready(queues: Iterable[QueueSpec], unread: Collection[str] = ()) -> dict[str, NotReady]:
    """Return NamespaceQueue -> why it never becomes ready; its waiting work waits, and running work continues. unread:
    unknown queues, about which nothing is assumed."""
    return _Conditions(queues, unread).not_ready()


def lacks_cluster_queues(queues: Iterable[QueueSpec]) -> bool:
    """Return whether there are NamespaceQueues and no Queue of the cluster, as in the repository of a tenant, who may
    not read these: then named ones exist elsewhere."""
    kinds = {bool(queue.namespace) for queue in queues}
    return kinds == {True}


class _Conditions:
    def __init__(self, queues: Iterable[QueueSpec], unread: Collection[str]) -> None:
        self.by_name = {queue.name: queue for queue in queues}
        self.unread = unread
        self.lacks_cluster_queues = lacks_cluster_queues(self.by_name.values())
        self.children: dict[str, list[QueueSpec]] = {}
        for queue in self.by_name.values():
            self.children.setdefault(queue.parent or ROOT_QUEUE, []).append(queue)
        self.found: dict[str, NotReady | None] = {}

    def not_ready(self) -> dict[str, NotReady]:
        names = [queue.name for queue in self.by_name.values() if queue.namespace]
        reasons = {name: self.reason_of(self.by_name[name]) for name in names}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def reason_of(self, queue: QueueSpec) -> NotReady | None:
        """Return the first condition that fails, in the controller's order."""
        if queue.name not in self.found:
            self.found[queue.name] = NotReady("HierarchyCycle", "its parents form a loop", refused=True)
            self.found[queue.name] = next(self._reasons(queue), None)
        return self.found[queue.name]

    def _reasons(self, queue: QueueSpec) -> Iterator[NotReady]:
        parent = self.by_name.get(queue.parent or ROOT_QUEUE)
        if parent is None:
            if not self._is_elsewhere(queue.parent or ROOT_QUEUE):
                text = f"its parent {queue.parent} does not exist"
                yield NotReady("ParentNotFound", text, refused="/" not in (queue.parent or ""))
        elif not parent.namespace:
            if not allows_namespace(parent.allowed_namespaces, queue.namespace):
                text = f"queue {parent.name} does not list {queue.namespace} in spec.allowedNamespaces"
                yield NotReady("NamespaceNotAllowed", text, refused=True)
            if not parent.open:
                yield NotReady("ParentNotReady", f"queue {parent.name} is closed")
        else:
            yield from self._reasons_of_local_parent(queue, parent)
        yield from (NotReady("ParentConstraintViolation", text) for text in self._exceeded(queue))

    def _is_elsewhere(self, name: str) -> bool:
        """Return whether a queue may exist that is not known. The default one is made by Volcano, and allows all."""
        return name == DEFAULT_QUEUE or name in self.unread or (self.lacks_cluster_queues and "/" not in name)

    def _reasons_of_local_parent(self, queue: QueueSpec, parent: QueueSpec) -> Iterator[NotReady]:
        above = self.reason_of(parent)
        if above is not None and above.reason == "HierarchyCycle":
            yield above
        if self._depth(queue) > MAX_DEPTH:
            text = f"it is {self._depth(queue)} levels below the cluster's queue, and {MAX_DEPTH} are allowed"
            yield NotReady("HierarchyDepthExceeded", text, refused=True)
        if above is not None:
            denied = above.reason in ("NamespaceNotAllowed", "ParentNotAuthorized", "ParentNotFound")
            reason = "ParentNotAuthorized" if denied else "ParentNotReady"
            yield NotReady(reason, f"its parent {parent.name} is not ready")

    def _depth(self, queue: QueueSpec) -> int:
        return 1 + sum(1 for above in self._above(queue) if above.namespace)

    def _above(self, queue: QueueSpec) -> Iterator[QueueSpec]:
        """Yield the ancestors from the parent upwards, without root; ends where a loop closes."""
        seen = {queue.name}
        at = self.by_name.get(queue.parent or ROOT_QUEUE)
        while at is not None and at.name not in seen and at.name != ROOT_QUEUE:
            seen.add(at.name)
            yield at
            at = self.by_name.get(at.parent or ROOT_QUEUE)

    def _exceeded(self, queue: QueueSpec) -> Iterator[str]:
        """Yield the amounts that fit no ancestor, or that siblings or children exceed together."""
        for above in self._above(queue):
            for name in sorted(queue.capability.keys() & above.capability.keys()):
                if queue.capability[name] > above.capability[name]:
                    amount, limit = (exact_amount(name, one.capability[name]) for one in (queue, above))
                    yield f"its capability of {name} {amount} is above the {limit} of {above.name}"
        parent = self.by_name.get(queue.parent or ROOT_QUEUE)
        for limiting in (parent, queue):
            if limiting is not None and limiting.name != ROOT_QUEUE:
                yield from _exceeded_sums(limiting, self.children.get(limiting.name, ()))


def allows_namespace(allowed: Collection[str], namespace: str) -> bool:
    """Return whether a cluster's Queue with these allowedNamespaces takes queues of that namespace below it; none
    denies all."""
    return not {namespace, ALL_NAMESPACES}.isdisjoint(allowed)


def _exceeded_sums(parent: QueueSpec, children: Sequence[QueueSpec]) -> Iterator[str]:
    """Only resources that the parent names count, and children of both kinds together."""
    for field, limits in (("guarantee", parent.guarantee), ("deserved", parent.deserved)):
        for name in sorted(limits):
            amounts: list[Mapping[str, int]] = [getattr(child, field) for child in children]
            total = sum(amount.get(name, 0) for amount in amounts)
            if total > limits[name]:
                shown = exact_amount(name, total), exact_amount(name, limits[name])
                yield f"the {field} of {name} below {parent.name} is {shown[0]} together, above its {shown[1]}"
