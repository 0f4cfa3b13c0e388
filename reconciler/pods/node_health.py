"""Nodes that come and go: since when one is lost, and whether one that came back is trusted. Decisions on data, no IO.

A node is lost while it is not ready, or is gone and pods name it still. One that was lost again and again takes nothing
new for a while after it came back, twice as long each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from compiler.fields.timestamp import epoch_seconds
from compiler.kubernetes import conditions_of, name_of
from reconciler.cluster.objects import Object
from reconciler.observation.nodes import NodeIndex
from reconciler.observation.pods import has_ended
from reconciler.threads.rest import doubled
from reconciler.timings import PodTimings


@dataclass(slots=True)
class NodeHealth:
    """What one process has seen of its nodes, on its clock. lost_since: node -> when it was lost. back_since: a lost
    node that is ready now and not trusted yet -> since when. losses: node -> how often it was lost lately, and when the
    last loss began. is_disrupted: so many are lost that nothing is evicted."""

    timings: PodTimings = field(default_factory=PodTimings)
    lost_since: dict[str, float] = field(default_factory=dict)
    back_since: dict[str, float] = field(default_factory=dict)
    losses: dict[str, tuple[int, float]] = field(default_factory=dict)
    is_disrupted: bool = False
    has_begun: bool = False

    def begin(self, nodes: Iterable[Object], now: float, wall_now: float, longest: float) -> None:
        """Take up, once, since when nodes are lost, so that their time does not begin again with a process. wall_now:
        `now` in seconds since the epoch. longest: seconds that a loss counts at most."""
        for node in nodes if not self.has_begun else ():
            if (since := unready_since(node)) is not None:
                self.lost_since[name_of(node)] = now - min(max(0.0, wall_now - since), longest)
                self.losses[name_of(node)] = 1, now
        self.has_begun = True

    def observe(self, nodes: NodeIndex, pods: Mapping[str, list[Object]], now: float) -> None:
        """Take up what nodes are ready now, and which are gone although pods are bound to them. pods: by node."""
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
        """Nodes that have been lost for so long that their pods are evicted; none with a timeout of 0."""
        if self.is_disrupted or not timeout:
            return frozenset()
        lost = self.lost_since.keys() - self.back_since.keys()
        return frozenset(node for node in lost if now - self.lost_since[node] >= timeout)

    def quarantined_nodes(self, now: float) -> Mapping[str, float]:
        """Nodes that are back and receive nothing new yet -> until when."""
        until = {node: since + self._quarantine(node) for node, since in self.back_since.items()}
        return {node: at for node, at in until.items() if at > now}

    def deadlines(self, timeout: float, now: float) -> list[float]:
        found = [since + timeout for since in self.lost_since.values()] if timeout and not self.is_disrupted else []
        settled = (since + self.timings.settle for since in self.back_since.values())
        return [*found, *settled, *self.quarantined_nodes(now).values()]


def unready_since(node: Object) -> int | None:
    """Since when a node is not ready, in seconds since the epoch, as its condition says; None where it is, or that is
    not known."""
    ready = next((row for row in conditions_of(node) if row.get("type") == "Ready"), None)
    return epoch_seconds(ready.get("lastTransitionTime")) if ready and ready.get("status") != "True" else None
