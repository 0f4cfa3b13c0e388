"""The usage of namespaces, as Volcano's plugin fairshare stores it in a ConfigMap.

It is read when a compile begins, and not watched: the plugin writes it every half minute. An order that changes only by
its numbers applies from the next compile for another cause.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from reconciler.cluster.client import ApiError, Forbidden
from reconciler.cluster.objects import Object, Ref
from reconciler.planning.snapshot import Snapshot

log = logging.getLogger(__name__)


@dataclass(slots=True)
class NamespaceUse:
    """find: reads an object that may be missing. place: NAMESPACE/NAME of the ConfigMap that the last answer requests,
    empty for none. problem: why it cannot be read. known, read_place: the last object read, and its place."""

    find: Callable[[Ref], Object | None]
    place: str = ""
    problem: str = ""
    known: Object | None = None
    read_place: str = ""

    def read(self) -> bool:
        """Read it for a compile, and return whether that may begin. Without permission nothing counts as used. Without
        an answer the last numbers count, which the plan lets decay; without any the compile waits."""
        namespace, _, name = self.place.partition("/")
        try:
            self.known, self.problem = self.find(Ref("v1", "ConfigMap", namespace, name)) if name else None, ""
            self.read_place = self.place
        except Forbidden as error:
            self.known, self.read_place = None, self.place
            self.problem = f"what namespaces used cannot be read, so that nothing counts as used: {error}"
        except ApiError as error:
            log.info("what namespaces used was not read", extra={"reason": str(error)})
            self.problem = "" if self.read_place == self.place else f"what namespaces used cannot be read: {error}"
        return self.read_place == self.place

    def objects(self) -> list[Object]:
        """Return the last object read, for the state of a compile."""
        return [] if self.known is None else [self.known]

    def suffices(self, answer: Snapshot) -> bool:
        """Return whether the compile with this answer got the ConfigMap that it requests; the next one does."""
        self.place = answer.settings.use_state
        return self.place in ("", self.read_place)
