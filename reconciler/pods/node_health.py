"""Lost nodes: since when each is lost, and whether one that returned is trusted. Decisions on data, no IO.

A node is lost while it is not ready, or is deleted and pods still name it. A node that was lost repeatedly gets nothing
new for a while after its return, twice as long each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from compiler.fields.times import epoch_seconds
from compiler.kubernetes import NOT_READY_TAINT, UNREACHABLE_TAINT, conditions_of, name_of
from reconciler.cluster.objects import Object
from reconciler.observation.nodes import NodeIndex
from reconciler.observation.pods import has_ended
from reconciler.threads.rest import doubled
from reconciler.timings import PodTimings


@dataclass(slots=True)
class NodeHealth:
    """The nodes' health as one process has seen it, on its clock. lost_since: node -> when it was lost. back_since: a
    lost node that is ready now and not trusted yet -> since when. losses: node -> how often it was lost lately, and
    when the last loss began. is_disrupted: so many are lost that nothing is evicted."""

    timings: PodTimings = field(default_factory=PodTimings)
    lost_since: dict[str, float] = field(default_factory=dict)
    back_since: dict[str, float] = field(default_factory=dict)
    losses: dict[str, tuple[int, float]] = field(default_factory=dict)
    is_disrupted: bool = False
    has_begun: bool = False

    def begin(self, nodes: Iterable[Object], now: float, longest: float) -> None:
        """Restore, once, how long nodes have certainly been lost, so that their time does not begin again with a
        process. longest: seconds that a loss counts at most.

        Only what the node controller wrote is compared, with the last that it wrote: its clock may be hours before or
        behind ours.
        """
        if self.has_begun:
            return
        times = {name_of(node): lost_at(node) for node in nodes}
        latest = max((at for at in times.values() if at is not None), default=0)
        for name, since in times.items():
            if since is not None:
                self.lost_since[name] = now - min(latest - since, longest)
                self.losses[name] = 1, now
        self.has_begun = True

    def observe(self, nodes: NodeIndex, pods: Mapping[str, list[Object]], now: float) -> None:
        """Record which nodes are ready now, and which are deleted although pods are bound to them. pods: by node."""
        gone = {name for name in pods.keys() - nodes.names if not all(map(has_ended, pods[name]))}
        absent_or_unready = nodes.unready | gone
        for node in sorted(absent_or_unready):
            if node not in self.lost_since or self.back_since.pop(node, None) is not None:
                count, _ = self.losses.get(node, (0, now))
                self.losses[node] = count + 1, now
            self.lost_since.setdefault(node, now)
        for node in sorted((self.lost_since.keys() | self.back_since.keys()) - absent_or_unready):
            back_for = now - self.back_since.setdefault(node, now)
            is_gone = node not in nodes.names
            if is_gone or back_for >= self.timings.settle:
                self.lost_since.pop(node, None)
            if is_gone or back_for >= max(self.timings.settle, self._quarantine(node)):
                del self.back_since[node]
        self.losses = {node: seen for node, seen in self.losses.items() if now - seen[1] < self.timings.flap_memory}
        lost_now = self.lost_since.keys() - self.back_since.keys()
        self.is_disrupted = len(lost_now) > self.timings.disrupted_share * max(len(nodes.names), 1)

    def _quarantine(self, node: str) -> float:
        losses, _ = self.losses.get(node, (0, 0.0))
        times = self.timings
        return doubled(times.first_quarantine, losses - 2, times.longest_quarantine) if losses >= 2 else 0.0

    def nodes_to_leave(self, timeout: float, now: float) -> frozenset[str]:
        """Return nodes that have been lost for so long that their pods are evicted; none with a timeout of 0."""
        if self.is_disrupted or not timeout:
            return frozenset()
        lost = self.lost_since.keys() - self.back_since.keys()
        return frozenset(node for node in lost if now - self.lost_since[node] >= timeout)

    def quarantined_nodes(self, now: float) -> Mapping[str, float]:
        """Return nodes that are back and receive nothing new yet -> until when."""
        until = {node: since + self._quarantine(node) for node, since in self.back_since.items()}
        return {node: at for node, at in until.items() if at > now}

    def deadlines(self, timeout: float, now: float) -> list[float]:
        found = [since + timeout for since in self.lost_since.values()] if timeout and not self.is_disrupted else []
        settled = (since + self.timings.settle for since in self.back_since.values())
        return [*found, *settled, *self.quarantined_nodes(now).values()]


def lost_at(node: Object) -> int | None:
    """Return when the node controller noted that a node is lost, in seconds since the epoch by its clock; None where
    the node is ready, or that is not known. That a node is not ready may have been written by its kubelet, by another
    clock."""
    ready = next((row for row in conditions_of(node) if row.get("type") == "Ready"), {"status": "True"})
    if ready.get("status") == "True":
        return None
    taints = (node.get("spec") or {}).get("taints") or ()
    times = [taint.get("timeAdded") for taint in taints if taint.get("key") in (NOT_READY_TAINT, UNREACHABLE_TAINT)]
    times += [ready.get("lastTransitionTime")] if ready.get("status") == "Unknown" else []
    return min((at for at in map(epoch_seconds, times) if at is not None), default=None)
