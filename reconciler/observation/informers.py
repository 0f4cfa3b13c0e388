"""The informers: one for each kind of the state, and one for each other kind that a plan holds.

Kinds of the state and of jobs are watched whole: a watch by our label shows a job that lost the label as gone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from math import inf

from compiler.cluster_state.soundness import Fault
from compiler.kubernetes import CLUSTER_LABEL
from compiler.run_kinds import RUN_KINDS
from reconciler.cluster.client import ApiError, Client, NotFound
from reconciler.cluster.objects import (
    STATE_KINDS,
    STATE_RESOURCES,
    Object,
    Ref,
    Resource,
    group_kind_of,
    name_of_key,
    ref_of,
)
from reconciler.cluster.watch import Informer, drop_unused_fields
from reconciler.observation.culprits import Culprit
from reconciler.observation.memory import ObservationMemory
from reconciler.observation.observe import Observation, Restrictions
from reconciler.observation.own_writes import OwnWrites
from reconciler.timings import TIMINGS, WatchTimings

_FOUNDATIONS = frozenset({"Node", "Pod", "PodGroup.scheduling.volcano.sh", "Queue.scheduling.volcano.sh"})
"""Kinds without which nothing is planned; the definition of any other may be deleted for the cost of its own
objects."""
MOST_HELD_OUT = 32
"""Objects that are held out at a time."""
_STATE_GROUPS = frozenset(group_kind_of(api, kind) for api, kind in STATE_KINDS)


@dataclass(slots=True)
class InformerSet:
    """unknown_kinds: of a plan, by group kind -> why it cannot be watched. deleted_objects: the last state of each, and
    whether the deletion itself was seen. updates: the updated objects of kinds that no plan depends on. `stir` is
    called for them, `wake` for all else. own: our writes, laid over what the watches show. _looked_for: group kind ->
    when a served version of it was looked for, and why there is none."""

    client: Client
    cluster: str
    wake: Callable[[], None]
    stir: Callable[[], None] = lambda: None
    informers: dict[str, Informer] = field(default_factory=dict)
    unknown_kinds: dict[str, str] = field(default_factory=dict)
    deleted_objects: list[tuple[Object, bool]] = field(default_factory=list)
    updates: deque[Ref] = field(default_factory=deque)
    timings: WatchTimings = TIMINGS.watch
    own: OwnWrites = field(default_factory=OwnWrites)
    clock: Callable[[], float] = time.monotonic
    _memory: ObservationMemory = field(default_factory=ObservationMemory)
    _looked_for: dict[str, tuple[float, str]] = field(default_factory=dict)
    _blames_from: float = -inf

    def start(self) -> None:
        for resource in STATE_RESOURCES:
            self._add_informer(resource, "")

    def watch_kinds(self, kinds: Iterable[tuple[str, str]], job_kinds: Collection[str] = ()) -> None:
        """Watch these kinds, by (apiVersion, kind), in addition to those of the state, and no others. job_kinds: group
        kinds that are watched whole, in addition to the known ones."""
        wanted: dict[str, list[tuple[str, str]]] = {}
        for api, kind in sorted(kinds):
            wanted.setdefault(group_kind_of(api, kind), []).append((api, kind))
        for group_kind in self.informers.keys() - wanted.keys() - _STATE_GROUPS:
            self.informers.pop(group_kind).stop()
            self.own.drop_kind(group_kind)
        self.unknown_kinds = {}
        added: list[Informer] = []
        failure = ""
        for group_kind, versions in sorted(wanted.items()):
            former = self.informers.get(group_kind)
            is_whole = group_kind in _STATE_GROUPS or group_kind in RUN_KINDS or group_kind in job_kinds
            if former is not None and (group_kind in _STATE_GROUPS or _is_good(former, versions, is_whole)):
                continue
            looked_at, _ = self._looked_for.get(group_kind, (-inf, ""))
            if not failure and self.clock() - looked_at >= self.timings.look_again:
                try:
                    selector = "" if is_whole else f"{CLUSTER_LABEL}={self.cluster}"
                    added += self._look_for(group_kind, versions, former, selector)
                except ApiError as error:
                    failure = str(error)
            if group_kind not in self.informers:
                self.unknown_kinds[group_kind] = failure or self._looked_for[group_kind][1]
        _wait_for_lists(added, self.timings.list_wait)

    def _look_for(
        self, group_kind: str, versions: Sequence[tuple[str, str]], former: Informer | None, selector: str
    ) -> Iterator[Informer]:
        """Yield the new informer of a kind, which replaces the former one, if one is needed. Raises ApiError if the
        server does not answer whether the kind is served."""
        try:
            resource = self._resource_of(versions, former)
        except NotFound as error:
            self._looked_for[group_kind] = self.clock(), str(error)
            return
        if former is not None:
            self._looked_for[group_kind] = self.clock(), ""
        if former is None or former.resource != resource or former.selector != selector:
            yield self._add_informer(resource, selector)

    def _resource_of(self, versions: Sequence[tuple[str, str]], former: Informer | None) -> Resource:
        """Return the resource of a kind in the last of these versions that is served, else in its group's preferred
        version. former: the kind's present informer. Raises NotFound for a kind that is not served."""
        if former is not None and _is_lost(former):
            self.client.served_version(former.resource.api_version, former.resource.kind)
        for api, kind in reversed(versions):
            with suppress(NotFound):
                return self.client.resource(api, kind)
        api, kind = versions[-1]
        with suppress(NotFound):
            api = self.client.served_version(api, kind)
        return self.client.resource(api, kind)  # where no version is served, its error names the kind

    def expect_kinds(self, group_kinds: Iterable[str]) -> None:
        """Note that objects of these kinds exist, so that a 404 does not mean that there are none."""
        for group_kind in group_kinds:
            if (informer := self.informers.get(group_kind)) is not None:
                informer.expect_kind()

    def _add_informer(self, resource: Resource, selector: str) -> Informer:
        group_kind = group_kind_of(resource.api_version, resource.kind)
        is_plan_input = group_kind in _STATE_GROUPS or group_kind in RUN_KINDS
        on_update = None if is_plan_input else self._record_update
        informer = Informer(
            self.client, resource, self.wake, selector, self.record_deletion, on_update=on_update, timings=self.timings
        )
        if (former := self.informers.get(group_kind)) is not None:
            former.stop()
        self.informers[group_kind] = informer
        informer.start()
        return informer

    def _record_update(self, item: Object) -> None:
        self.updates.append(ref_of(item))
        self.stir()

    def take_updates(self, most: int) -> list[Object]:
        """Remove the first so many of `updates`, and return each once, in its last known state. `stir` is called again
        if some remain."""
        refs = dict.fromkeys(self.updates.popleft() for _ in range(min(most, len(self.updates))))
        if self.updates:
            self.stir()
        kinds = {kind: self.informers[kind] for kind in {ref.group_kind for ref in refs} & self.informers.keys()}
        found = (kinds[ref.group_kind].item((ref.namespace, ref.name)) for ref in refs if ref.group_kind in kinds)
        return [item for item in found if item is not None]

    def take_deletions(self) -> list[tuple[Object, bool]]:
        """Return the `deleted_objects`, the last one first; each is no longer among them."""
        return [self.deleted_objects.pop() for _ in range(len(self.deleted_objects))]

    def record_deletion(self, item: Object, witnessed: bool) -> None:
        self.deleted_objects.append((item, witnessed))

    def wait_for_lists(self, seconds: float) -> bool:
        """Wait for the first lists; return whether all have arrived, or proved impossible."""
        return _wait_for_lists(self.informers.values(), seconds)

    def state_problems(self) -> list[str]:
        """Return why kinds that a plan rests on cannot be read."""
        found = []
        for kind in sorted((_STATE_GROUPS & self.informers.keys()) - self._withdrawn_kinds()):
            informer = self.informers[kind]
            if informer.health.is_served and (obstacle := informer.obstacle()):
                found.append(obstacle)
        return found

    def _withdrawn_kinds(self) -> frozenset[str]:
        informers = list(self.informers.items())
        return frozenset(kind for kind, informer in informers if informer.health.is_withdrawn).difference(_FOUNDATIONS)

    def observe(self, restrictions: Restrictions) -> Observation:
        objects: dict[str, Object] = {}
        by_kind: dict[str, Mapping[str, Object]] = {}
        obstacles = dict(self.unknown_kinds)
        problems, withdrawn = tuple(self.state_problems()), self._withdrawn_kinds()
        partial, faults = [*self.unknown_kinds.values()], dict[str, tuple[Fault, ...]]()
        for kind, informer in sorted(self.informers.items()):
            if obstacle := informer.obstacle():
                obstacles[kind] = obstacle
                if kind not in _STATE_GROUPS or kind in withdrawn:
                    partial.append(obstacle)
            reached = informer.version_reached()  # before the objects: they are as new as that, or newer
            keyed = informer.keyed_items()
            if informer.health.is_served:
                keyed = self.own.laid_over(kind, keyed, reached)
            else:
                self.own.drop_kind(kind)
            objects |= keyed
            by_kind[kind] = keyed
            faults |= informer.faults()
        pending = frozenset(kind for kind, informer in self.informers.items() if not informer.wait_for_list(0))
        readable = frozenset(self.informers.keys() - obstacles.keys())
        unserved = frozenset(kind for kind, informer in self.informers.items() if not informer.health.is_served)
        partial += (_fault_text(key, of_object) for key, of_object in sorted(faults.items()))
        rest = tuple(partial), pending, withdrawn, unserved, by_kind, self._memory, faults
        return Observation(objects, readable, problems, restrictions, obstacles, *rest)

    def hold_out(self, culprits: Iterable[Culprit], reason: str) -> str:
        """Hold out the first possible of these objects, in the order of suspicion, and return its Ref.key; "" for none.
        Where passes keep failing on more and more objects, none is to blame, and none is held out for a while."""
        now, of_kinds = self.clock(), [each.faults().values() for each in self.informers.values()]
        if sum(any(fault.holds_out for fault in faults) for faults in chain.from_iterable(of_kinds)) >= MOST_HELD_OUT:
            self._blames_from = now + self.timings.held_out
            for informer in self.informers.values():
                informer.hold_out_nothing()
        for key, uid in culprits if now >= self._blames_from else ():
            kind, namespace, name = key.split("/")
            if (found := self.informers.get(kind)) is not None and found.hold_out(
                (namespace, name), uid, Fault((), reason, holds_out=True)
            ):
                return key
        return ""

    def read_pods(self) -> None:
        """Read all pods now, and lay what the watch does not show yet over the observations: what the leader before us
        wrote last may be missing there. Raises ApiError."""
        shown = self.informers["Pod"].keyed_items() if "Pod" in self.informers else {}  # before the list: it is older
        listed, _ = self.client.list(self.client.resource("v1", "Pod"))
        self.own.record_reads("Pod", map(drop_unused_fields, listed), shown)

    def stop(self) -> None:
        for informer in self.informers.values():
            informer.stop()


def _fault_text(key: str, faults: Sequence[Fault]) -> str:
    """That an object is damaged: it counts as far as it can be read."""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{name_of_key(key)} cannot be read as a whole: {faults[0]}{more}"


def _is_good(informer: Informer, versions: Sequence[tuple[str, str]], is_whole: bool) -> bool:
    """Return whether it watches the kind in a served version of these, and no fewer objects than wanted."""
    is_narrow = is_whole and informer.selector
    version = informer.resource.api_version, informer.resource.kind
    return version in versions and not is_narrow and not _is_lost(informer)


def _is_lost(informer: Informer) -> bool:
    """Return whether the cluster does not serve the watched kind."""
    return informer.health.is_withdrawn or not informer.health.is_served


def _wait_for_lists(informers: Iterable[Informer], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    return all(informer.wait_for_list(max(0.0, deadline - time.monotonic())) for informer in informers)
