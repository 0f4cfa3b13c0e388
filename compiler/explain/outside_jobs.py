"""Jobs outside of every problem: jobs that nobody starts now, and jobs whose pods their own scheduler places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from compiler.explain.provenance import Provenance, Source, source_at, source_if_written
from compiler.explain.resource_statements import REASONS as ROOM
from compiler.explain.resource_statements import REPAIRS as CHANGES
from compiler.explain.resource_statements import absence_values, lack_values, node_edit_values
from compiler.explain.statements import CodedMessage, Entry, Names, amount_to_type, clear_amounts
from compiler.kubernetes import SUSPEND_ANNOTATION, VOLCANO_SCHEDULER
from compiler.lower.reserved_room import EmptyNodes, ReservedRoom
from compiler.specs.gang_spec import GangSpec, RoleSpec, UnplannedPods
from compiler.syntax.documents import FieldPath
from solver import repairs
from solver.facts import Fact, NoEligibleNode, OversizedPod, UnmatchedPod

SUSPEND_PATHS: tuple[FieldPath, ...] = (("spec", "suspend"), ("spec", "runPolicy", "suspend"))


@dataclass(frozen=True, slots=True)
class Suspension(Fact, code="GW111"):
    """The job's owner suspended it; it is in no problem."""


@dataclass(frozen=True, slots=True)
class NoRoomKept(Fact, code="GW126"):
    """The pods of a job or service that the plan binds to no node find no node with room; it is in no problem."""


_SUSPENDED: Entry[Suspension] = Entry(
    Suspension,
    "suspended",
    ("its owner suspended it",),
    special_texts=("its pods name the scheduler {scheduler}",),
    remedy="Resume the job, or name Volcano as its scheduler.",
)
_NO_ROOM: Entry[NoRoomKept] = Entry(
    NoRoomKept,
    "no room for pods that go where their scheduler puts them",
    ("no node that its pods match has room for one of them now",),
    remedy="See their requests, selectors and tolerations, and what else takes the room.",
)
REASONS: tuple[Entry[Any], ...] = (_SUSPENDED, _NO_ROOM)
_ENTRIES: dict[type[Any], Entry[Any]] = {entry.kind: entry for entry in (*ROOM, *CHANGES)}


def suspended_message(spec: GangSpec, held_because: str = "") -> CodedMessage:
    """Return why a job is held, suspended by its owner, or left to another scheduler."""
    schedulers = {spec.scheduling.scheduler_name, *(role.pod.scheduler_name for role in spec.roles)} - {
        "",
        VOLCANO_SCHEDULER,
    }
    values = {"scheduler": min(schedulers)} if schedulers and not spec.scheduling.schedulable else {}
    message = _SUSPENDED.message(values, hold_sources(spec) if held_because else suspension_sources(spec))
    return replace(message, message=held_because) if held_because else message


def hold_sources(spec: GangSpec) -> tuple[Source, ...]:
    """Return the annotation that holds a job, else the job: what else holds it is in no file."""
    written = source_if_written(spec.document, "suspend", "metadata", "annotations", SUSPEND_ANNOTATION)
    return tuple(written) or (source_at(spec.document, "", "metadata", "name"),)


def suspension_sources(spec: GangSpec) -> tuple[Source, ...]:
    """Return the fields by which the owner suspended a job."""
    for path in SUSPEND_PATHS:
        if path in spec.document.positions and spec.document.data["spec"].get(path[1]) not in (None, False):
            return (source_at(spec.document, "suspend", *path),)
    path = spec.field_paths.get("scheduler", ("metadata", "name"))
    return (source_at(spec.document, "scheduler" if "scheduler" in spec.field_paths else "", *path),)


@dataclass(frozen=True, slots=True)
class UnboundJob:
    """A job whose pods its own scheduler places, with the room that is reserved for them."""

    provenance: Provenance
    nodes: EmptyNodes
    spec: GangSpec
    rooms: tuple[ReservedRoom, ...]

    def reasons(self) -> Iterator[CodedMessage]:
        """Yield why it waits: no node ever takes pods of it, or none has room now. It can never start where no node
        takes any of its templates, and never end where that is one of them."""
        homeless = [room.pods for room in self.rooms if room.homeless]
        unfit = [pods for pods in homeless if self.nodes.never_take(pods.pod)]
        never = all(self.nodes.never_take(room.pods.pod) for room in self.rooms)
        for pods in unfit:
            yield self._unfit_message(pods, never)
        if len(unfit) < len(homeless):
            yield _NO_ROOM.message({}, map(self._template_source, self.spec.roles))

    def repairs(self) -> tuple[CodedMessage, ...]:
        """Smaller pods or other nodes for each role that no node takes, where these let it start."""
        found = [self._repair(room) for room in filter(self._lacks_room, self.rooms)]
        changes = [change for change in found if change is not None]
        if len(changes) != len(found):
            return ()
        sentence = " and ".join(change.message for change in changes)
        return (replace(changes[0], message=sentence, also=tuple(changes[1:])),)

    def _lacks_room(self, room: ReservedRoom) -> bool:
        return bool(room.homeless) or self.nodes.never_take(room.pods.pod)

    def _unfit_message(self, pods: UnplannedPods, never: bool) -> CodedMessage:
        """That no node takes the pods even when empty."""
        s, pod, largest = self.provenance, pods.pod, self.nodes.largest_amounts(pods.pod)
        values: dict[str, Any] = {"role": pods.role} | ({"never": True} if never else {})
        short = next((name for name, most in largest.items() if pod.requests[name] > most), None)
        if short is not None:
            amounts = {"asked": pod.requests[short], "available": largest[short]}
            values |= {"resource": short, **clear_amounts(short, amounts), **absence_values(s, short)}
            values |= {} if largest[short] else lack_values(s, pod, short)
        elif not largest:
            values |= s.closed_nodes.reasons(pod)
        kind = NoEligibleNode if not largest else UnmatchedPod if short is None else OversizedPod
        return _ENTRIES[kind].message(values, (self._template_source(self._role_of(pods)),), even_empty=True)

    def _repair(self, room: ReservedRoom) -> CodedMessage | None:
        pods, role = room.pods, self._role_of(room.pods)
        if room.smaller is not None:
            resource, amount = room.smaller
            amounts = {"amount": amount, "now": pods.pod.requests[resource]}
            typed = {key: amount_to_type(resource, each) for key, each in amounts.items()}
            values = {"role": pods.role, "resource": resource, **typed}
            return _ENTRIES[repairs.SmallerPods].message(values, (self._template_source(role),))
        if room.other_node is not None:
            nodes = Names((self.provenance.origins.nodes[room.other_node].name,))
            edits = node_edit_values(self.provenance, pods.pod, room.other_node)
            values = {"role": pods.role, "nodes": nodes, **edits}
            return _ENTRIES[repairs.MoreNodeClasses].message(values, self._selector_sources(role))
        return None

    def _role_of(self, pods: UnplannedPods) -> RoleSpec:
        return next(role for role in self.spec.roles if role.name == pods.role)

    def _template_source(self, role: RoleSpec) -> Source:
        return source_at(self.spec.document, role.name, *role.template_path, "spec")

    def _selector_sources(self, role: RoleSpec) -> tuple[Source, ...]:
        """Return the fields that exclude nodes for the role, else the role."""
        document, found = self.spec.document, list[Source]()
        for what, name in (("node selector", "nodeSelector"), ("affinity", "affinity"), ("tolerations", "tolerations")):
            paths = ((*path, name) for path in role.selector_paths)
            places = (source_if_written(document, f"{what} of role {role.name}", *path) for path in paths)
            found += islice(chain.from_iterable(places), 1)
        return tuple(found) or (source_at(document, f"role {role.name}", *role.path),)
