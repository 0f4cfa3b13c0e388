"""NamespaceQueues that Volcano 1.16 would refuse to create for what the cluster holds.

Source: the webhook of NamespaceQueues of Volcano 1.16's branch, and its design.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.cluster_state.pod_records import spec_queue
from compiler.fields.quantity import read_quantity
from compiler.kubernetes import Object, name_of, namespace_of, status_of
from compiler.specs.namespace_queues import allows_namespace, parent_name, queue_name

_COUNTERS = ("pending", "inqueue", "running", "unknown")
"""Fields of a queue's status that count unfinished PodGroups."""
_AMOUNTS = ("allocated", "reservation")


@dataclass(frozen=True, slots=True)
class LiveQueues:
    """Queues of both kinds as a cluster has them, and its PodGroups."""

    cluster_queues: Sequence[Object]
    local_queues: Sequence[Object]
    groups: Sequence[Object]

    def refused(self, wanted: Mapping[str, str], declared: Collection[str]) -> dict[str, str]:
        """NamespaceQueue -> why it would be refused. wanted: NamespaceQueue -> its parent, as the repository has it.
        declared: the queues of the repository, whose own fields are checked there."""
        by_name = {local_name(each): each for each in self.local_queues}
        parents = {name: local_parent(each) for name, each in by_name.items()}
        by_name |= {name_of(each): each for each in self.cluster_queues}
        with_children = {*parents.values(), *((each.get("spec") or {}).get("parent") for each in self.cluster_queues)}
        found = dict[str, str]()
        for name, parent in wanted.items():
            live, namespace = by_name.get(parent), name.partition("/")[0]
            if live is None or parents.get(name) == parent:
                continue
            if "/" not in parent and parent not in declared and not _allows(live, namespace):
                found[name] = f"queue {parent} of the cluster does not list {namespace} in spec.allowedNamespaces"
            elif parent not in with_children and (work := ", ".join(self._work_in(parent, live))):
                found[name] = f"queue {parent} has no queue below it yet, and holds work: {work}"
        return found

    def _work_in(self, name: str, queue: Object) -> Iterator[str]:
        status = status_of(queue)
        phases = Counter(str(status_of(each).get("phase")).lower() for each in self.groups if spec_queue(each) == name)
        for phase in _COUNTERS:
            counted = status.get(phase)
            if number := max(phases[phase], counted if isinstance(counted, int) else 0):
                yield f"{number} {phase} PodGroup{'s' if number > 1 else ''}"
        for field in _AMOUNTS:
            amounts = status.get(field) or {}
            amounts = amounts.get("resource", amounts)  # of a reservation
            yield from (
                f"{amount} {resource} {field}"
                for resource, amount in amounts.items()
                if (read_quantity(amount) or 0) > 0
            )


def local_name(queue: Object) -> str:
    """Return the name by which Volcano's scheduler knows a NamespaceQueue of the cluster."""
    return queue_name(namespace_of(queue), name_of(queue))


def local_parent(queue: Object) -> str:
    """Return the parent of a NamespaceQueue of the cluster."""
    return parent_name(namespace_of(queue), (queue.get("spec") or {}).get("parent"))


def _allows(queue: Object, namespace: str) -> bool:
    return allows_namespace((queue.get("spec") or {}).get("allowedNamespaces") or (), namespace)
