"""Why a gang waits and what would help: the solver's facts and repairs as messages in the user's own names."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from compiler.checks.resource_names import near_resource
from compiler.explain.amounts import AMOUNT_KEYS, Amount, amounts_of, clear_amounts
from compiler.explain.closed_nodes import ClosedNodes
from compiler.explain.edits import (
    Edit,
    edit_text,
    edit_value,
    node_group_edit_text,
    node_group_edits,
    partition_edits,
    path_text,
    pod_count_edits,
)
from compiler.explain.evictions import eviction_edit, obstacle_names
from compiler.explain.provenance import Source
from compiler.explain.reason_entries import REASONS, LostStart, NoRoomKept, Suspension
from compiler.explain.repair_entries import REPAIRS
from compiler.explain.rivals import EarlierGangs
from compiler.fields.amounts import named_amount, rounded_amount, slot_request_text
from compiler.fields.duration import duration_text, rounded_duration_text
from compiler.fields.quantity import exact_amount
from compiler.fields.timestamp import rfc3339
from compiler.kubernetes import VOLCANO_SCHEDULER
from compiler.lower.origins import Origins
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.specs.pod_spec import Amounts, PodSpec
from compiler.syntax.documents import FieldPath
from compiler.volcano import metax
from solver import repairs
from solver.facts import (
    Borrowing,
    ClosedQueue,
    EligibleNodeShortage,
    Fact,
    Fragmentation,
    NobodyEvicted,
    NoEligibleNode,
    OversizedGang,
    OversizedPod,
    PodRuleConflict,
    SlotShortage,
    StrictOrder,
    UnmatchedPod,
)
from solver.problem import Gang, HyperNode, Node, Problem, Queue, Role, Subgroup

FactValue = str | int | float | bool | tuple[str, ...]
MAX_LISTED_NAMES = 3
"""How many other gangs, queues or nodes a sentence names before it counts the rest."""
FACT_KEYS = (
    *(
        "role",
        "policy",
        "queue",
        "resource",
        "hypernode",
        "tier",
        "asked",
        "available",
        "limit",
        "held",
        "rule",
        "subgroup",
    ),
    *("gangs", "queues", "nodes", "nodeGroups", "never", "told", "at", "obstacle"),
)
REPAIR_KEYS = (
    *("role", "subgroup", "queue", "resource", "hypernode", "tier", "gangs", "nodes", "nodeGroups", "seconds", "at"),
    *("annotation", "written", "amount", "now", "limit", "class", "edits", "obstacle"),
)
"""The keys of a reason and of a repair in the JSON, in order."""

_TOLD_BY_DOCUMENT = (
    *(OversizedPod, OversizedGang, NoEligibleNode, EligibleNodeShortage),
    *(repairs.SmallerSubgroups, repairs.SoftTopology, repairs.MoreNodeClasses, repairs.AllowEviction),
    repairs.FewerPods,
)
"""Facts and repairs of which a message names what the gang's own document says."""


@dataclass(frozen=True, slots=True)
class CodedMessage:
    """A code, its sentence, and the values in it (amounts as in `compiler.fields.amounts.json_amount`).

    never: waiting cannot help. also: of a repair, the changes that must come with it; its message includes them.
    sources: the objects that a fact comes from; of a repair, where it is made or what is waited for.
    """

    code: str
    message: str
    facts: Mapping[str, FactValue] = field(default_factory=dict)
    never: bool = False
    also: tuple[CodedMessage, ...] = ()
    sources: tuple[Source, ...] = ()


class Explainer:
    """Messages about the gangs of one problem. stuck: those that can never start as written."""

    def __init__(self, problem: Problem, origins: Origins, stuck: Collection[int] = ()) -> None:
        self.problem, self.origins, self.stuck = problem, origins, stuck
        self._known: dict[object, CodedMessage] = {}

    def _shared(
        self, gang: Gang, parts: Sequence[Fact | repairs.Repair], make: Callable[[], CodedMessage]
    ) -> CodedMessage:
        """The message of `make` about these parts, made once for all gangs that are alike, unless it tells of the
        gang's document."""
        if any(isinstance(part, _TOLD_BY_DOCUMENT) for part in parts):
            return make()
        key = (*parts, gang.roles, gang.subgroups)
        if (found := self._known.get(key)) is None:
            found = self._known[key] = make()
        return found

    def fact_message(self, gang: Gang, fact: Fact) -> CodedMessage:
        return self._shared(gang, (fact,), lambda: self._fact_message(gang, fact))

    def _fact_message(self, gang: Gang, fact: Fact) -> CodedMessage:
        entry = REASONS[type(fact)]
        values, names = self._values(gang, fact), dict[str, object]()
        match fact:
            case OversizedPod() | OversizedGang():
                values["limit"] = values["available"]
                names |= self._absence_names(self.problem.resources[fact.resource])
                names |= self._owner_names(gang, fact)
            case NoEligibleNode(role=t) | EligibleNodeShortage(role=t):
                if not self.problem.nodes:
                    names["nothing"] = "the cluster has no nodes"
                if policy := self.origins.excluding_numa_policies.get((self._gang_index(gang), t)):
                    values["policy"] = policy
                if (spec := self._gang_spec(gang)) is not None:
                    names |= self._closed_node_names(fact, spec.roles[t])
            case PodRuleConflict(pod_rule=rho):
                values |= self._pod_rule_values(rho)
            case Fragmentation(role=int(t), scarce=int(r)):
                values["resource"] = resource = self.problem.resources[r]
                names |= _piece_names(resource, gang.roles[t].request[r], fact)
            case NobodyEvicted():
                values["obstacle"] = fact.obstacle
                names |= obstacle_names(fact, self.problem, self.origins.gangs)
            case Borrowing() | StrictOrder() | ClosedQueue():
                names |= self._queue_names(fact)
            case SlotShortage(role=t):
                names["share"] = slot_request_text(gang.roles[t].slot_requests[0], self.problem.resources)
        if fact.never:
            values["never"] = True
        texts = (*entry.special_texts, *(entry.never_texts if fact.never else ()), *entry.texts)
        message = _first_complete_text(texts, _text_names(values) | names, entry.title)
        return CodedMessage(fact.code, message, _json_values(values, FACT_KEYS), fact.never)

    def _absence_names(self, resource: str) -> dict[str, str]:
        """That no node has the resource, and what was perhaps meant."""
        if not self.node_resources or resource in self.node_resources:
            return {}
        near = near_resource(resource, self.node_resources)
        return {"absent": resource} | ({"near": near} if near else {})

    def _queue_names(self, fact: Borrowing | StrictOrder | ClosedQueue) -> Mapping[str, str]:
        """Why its queue takes no gangs, or the gangs that go first in it for another reason than what they ask for."""
        gangs = self.problem.gangs
        if isinstance(fact, ClosedQueue):
            queue = self.problem.queues[fact.queue]
            return {"parent" if queue.open else "closed": queue.name}
        if isinstance(fact, StrictOrder):
            return {"stuck": gangs[fact.gang].name} if fact.gang in self.stuck else {}
        told = [gangs[i].name for i in fact.gangs if gangs[i].promised]
        return {"told": _short_list(told)} if told else {}

    def _owner_names(self, gang: Gang, fact: Fact) -> Mapping[str, str]:
        """Of a role for which no open node has a resource, the nodes that have it."""
        spec = self._gang_spec(gang)
        if spec is None or not isinstance(fact, OversizedPod) or fact.available:
            return {}
        return self._lack_names(spec.roles[fact.role].pod, self.problem.resources[fact.resource])

    def _lack_names(self, pod: PodSpec, resource: str) -> dict[str, str]:
        return {"lacking": resource} | self._closed_nodes.owners(pod, resource)

    def _closed_node_names(self, fact: Fact, role: RoleSpec) -> Mapping[str, str]:
        """Labels and taints that close nodes to the role, where they are why."""
        found = self._closed_nodes.reasons(role.pod)
        return found if isinstance(fact, NoEligibleNode) != ("open" in found) else {}

    @cached_property
    def _closed_nodes(self) -> ClosedNodes:
        return ClosedNodes(self.origins.nodes)

    @cached_property
    def node_resources(self) -> frozenset[str]:
        """What nodes say that they have."""
        amounts = (entry for node in self.origins.nodes for entry in node.allocatable.items())
        return frozenset(name for name, amount in amounts if amount)

    def _pod_rule_values(self, rho: int) -> dict[str, object]:
        values: dict[str, object] = {}
        if rho < len(self.origins.rule_texts):
            values["rule"] = self.origins.rule_texts[rho]
        if rho in self.origins.subgroup_of_rule:
            j, k = self.origins.subgroup_of_rule[rho]
            values["subgroup"] = self.origins.gangs[j].subgroups[k].name
        return values

    @staticmethod
    def suspended_message(spec: GangSpec, held_because: str = "") -> CodedMessage:
        """The message for a suspended job, which is in no problem."""
        entry, names = REASONS[Suspension], dict[str, object]()
        schedulers = {spec.scheduler_name, *(role.pod.scheduler_name for role in spec.roles)} - {"", VOLCANO_SCHEDULER}
        if schedulers and not spec.schedulable:
            names["scheduler"] = min(schedulers)
        text = _first_complete_text((*entry.special_texts, *entry.texts), names, entry.title)
        return CodedMessage(Suspension.code, held_because or text)

    @staticmethod
    def no_room_message() -> CodedMessage:
        """The message for a job whose pods the plan binds to no node."""
        return CodedMessage(NoRoomKept.code, REASONS[NoRoomKept].texts[0])

    def unfit_message(self, role: str, pod: PodSpec, largest: Amounts, never: bool) -> CodedMessage:
        """The message for pods that no node takes even when empty. largest: what the nodes open to them have at most,
        nothing where there are none. never: whether their job can never start for that."""
        values, names = dict[str, object](role=role), dict[str, object]()
        short = [name for name, most in largest.items() if pod.requests[name] > most]
        kind: type[Fact] = OversizedPod if short else UnmatchedPod if largest else NoEligibleNode
        if short:
            resource, amounts = short[0], {"asked": pod.requests[short[0]], "available": largest[short[0]]}
            values |= {"resource": resource, **clear_amounts(resource, amounts)}
            names |= self._absence_names(resource) | (self._lack_names(pod, resource) if not largest[resource] else {})
        elif not largest:
            names |= self._closed_nodes.reasons(pod)
        entry = REASONS[kind]
        texts = (*entry.special_texts, *entry.never_texts, *entry.texts)
        message = _first_complete_text(texts, _text_names(values) | names, entry.title)
        values |= {"never": True} if never else {}
        return CodedMessage(kind.code, message, _json_values(values, FACT_KEYS), never)

    def smaller_pods_message(self, role: str, resource: str, amount: int, now: int) -> CodedMessage:
        """The repair of a job whose pods the plan binds to no node."""
        entry = REPAIRS[repairs.SmallerPods]
        values: dict[str, object] = {"role": role, "resource": resource}
        values |= {
            key: Amount(resource, number, exact_amount(resource, number))
            for key, number in (("amount", amount), ("now", now))
        }
        message = _first_complete_text(entry.texts, _text_names(values), entry.title)
        return CodedMessage(repairs.SmallerPods.code, message, _json_values(values, REPAIR_KEYS))

    def other_nodes_message(self, role: str, pod: PodSpec, n: int) -> CodedMessage:
        """The repair of a job whose pods the plan binds to no node, and to which labels or taints close all nodes."""
        entry, edits = REPAIRS[repairs.MoreNodeClasses], self._closed_nodes.edits(pod, n)
        values: dict[str, object] = {"role": role, "nodes": (self.origins.nodes[n].name,), "edits": edits}
        names = _text_names(values) | {"edits": " and ".join(edits)}
        message = _first_complete_text((*entry.special_texts, *entry.texts), names, entry.title)
        return CodedMessage(repairs.MoreNodeClasses.code, message, _json_values(values, REPAIR_KEYS))

    def lost_start_message(self, fact: LostStart, told: int, starts_at: int | None) -> CodedMessage:
        """That a start is not kept which an earlier plan told. Times in seconds since the epoch; starts_at: what this
        plan tells instead."""
        values: dict[str, object] = {"told": rfc3339(told)}
        for key in ("gangs", "ends", "late", "first"):
            if gangs := getattr(fact, key):
                values[key] = tuple(self.problem.gangs[j].name for j in gangs)
        if starts_at is not None:
            values["at"] = rfc3339(starts_at)
        if fact.queue is not None:
            values["queue"] = self.problem.queues[fact.queue].name
        names, entry = _text_names(values), REASONS[LostStart]
        message = _first_complete_text((*entry.special_texts, *entry.texts), names, entry.title)
        return CodedMessage(LostStart.code, message, _json_values(values, FACT_KEYS))

    def repair_message(self, gang: Gang, repair: repairs.Repair) -> CodedMessage:
        """One change; its sentence includes the changes that must come with it."""
        together = (repair, *repair.also)
        return self._shared(gang, together, lambda: self._repair_message(gang, repair, together))

    def _repair_message(self, gang: Gang, repair: repairs.Repair, together: Sequence[repairs.Repair]) -> CodedMessage:
        """together: the change and those that must come with it, of which it is one."""
        entry, values, names = REPAIRS[type(repair)], self._values(gang, repair), dict[str, object]()
        match repair:
            case (
                repairs.EndOfGangs(seconds=int(seconds))
                | repairs.StartOfGang(seconds=int(seconds))
                | repairs.EndOfMaintenance(seconds)
            ):
                if self.origins.now is not None:
                    values["at"] = rfc3339(self.origins.now + seconds)
            case repairs.SmallerSubgroups(subgroup=k, amount=pods):
                values |= self._annotation_values(gang, k, repair, pods)
                names |= self._partition_names(gang, repair, together, values)
            case repairs.SoftTopology(subgroup=int(k)):
                values |= self._annotation_values(gang, k, repair, None)
            case repairs.HigherPriority(amount=least):
                classes = self.origins.priority_classes.items()
                if fitting := [(value, name) for name, value in classes if value >= least]:
                    values["class"] = min(fitting)[1]
                running = _short_list([self.problem.gangs[i].name for i in repair.gangs])
                names |= {"victims": running or "running jobs of its queue"} if repair.evicts else {}
            case repairs.MoreNodeClasses(role=t, node=n) if (spec := self._gang_spec(gang)) is not None:
                if edits := self._closed_nodes.edits(spec.roles[t].pod, n):
                    values["edits"], names["edits"] = edits, " and ".join(edits)
            case repairs.AllowEviction():
                values["obstacle"] = repair.obstacle
                edit = eviction_edit(repair, self.problem, self.origins.gangs, self._gang_index(gang))
                values["edits"], names["edits"] = (edit,), edit
            case repairs.OpenNodeGroups():
                names |= self._node_group_names(repair, values)
            case repairs.FewerPods() if (spec := self._gang_spec(gang)) is not None:
                sizes = {part.subgroup: part.amount for part in together if isinstance(part, repairs.SmallerSubgroups)}
                names |= _edit_names(pod_count_edits(spec, gang, repair, sizes), values) | _elastic_name(gang, repair)
        values |= self._values_to_type(repair)
        also = tuple(self._repair_message(gang, other, together) for other in repair.also)
        message = _first_complete_text((*entry.special_texts, *entry.texts), _text_names(values) | names, entry.title)
        sentence = " and ".join((message, *(other.message for other in also)))
        return CodedMessage(repair.code, sentence, _json_values(values, REPAIR_KEYS), also=also)

    def with_earlier_gangs(
        self, message: CodedMessage, earlier: EarlierGangs | None, before: int | None
    ) -> CodedMessage:
        """The message of a repair, with the gangs that profit first or may (`earlier`), and the one that still comes
        before it in its strictly ordered queue (`before`)."""
        sentence, values = message.message, dict[str, Any](message.facts)
        if earlier is not None:
            others = tuple(self.problem.gangs[j].name for j in earlier.leading)
            values.setdefault("gangs", others)
            waits, comes = ("waits", "comes") if earlier.count == 1 else ("wait", "come")
            turn = comes if earlier.surely else "may come"
            sentence += f"; {_short_list(others, earlier.count)} {waits} for it too and {turn} first"
        elif before is not None:
            sentence += f"; {self.problem.gangs[before].name} still comes before it in its queue"
        return replace(message, message=sentence, facts=_json_values(values, REPAIR_KEYS))

    def _partition_names(
        self,
        gang: Gang,
        repair: repairs.SmallerSubgroups,
        together: Sequence[repairs.Repair],
        values: dict[str, object],
    ) -> Mapping[str, str]:
        """What to write for smaller partitions; how many there are is told with the pods, where these are fewer."""
        if (spec := self._gang_spec(gang)) is None:
            return {}
        with_counts = not any(isinstance(part, repairs.FewerPods) for part in together)
        return _edit_names(partition_edits(spec, repair, with_counts), values)

    def _node_group_names(self, repair: repairs.OpenNodeGroups, values: dict[str, object]) -> Mapping[str, str]:
        """What to write into the affinity that the queue has, its own or that of a queue above it."""
        if not self.origins.affinity_owners:
            return {}
        owner = self.origins.affinity_owners[repair.queue]
        spec = self.origins.queues[owner]
        groups = [self.problem.node_groups[g] for g in repair.node_groups]
        found = node_group_edits(None if spec is None else spec.affinity, groups)
        whose = "" if spec is None or owner == repair.queue else f" of queue {spec.name}"
        values["edits"] = tuple(f"{path_text(path)}: {written}" for path, written in found.items())
        return {"edits": " and ".join(node_group_edit_text(path, written, whose) for path, written in found.items())}

    def _values_to_type(self, repair: repairs.Repair) -> Mapping[str, Amount]:
        """The amount to write for the repair, as a queue or pod takes it, and exact: a rounded one may not suffice."""
        match repair:
            case repairs.MoreCapability(queue=q, resource=r, amount=more):
                key, amount = "limit", (self.problem.queues[q].capability[r] or 0) + more
            case repairs.SmallerGuarantee(queue=q, resource=r, amount=less):
                key, amount = "limit", (self.problem.queues[q].guarantee[r] or 0) - less
            case repairs.MoreDeserved(resource=r, amount=amount) | repairs.SmallerPods(resource=r, amount=amount):
                key = "amount"
            case _:
                return {}
        resource = self.problem.resources[r]
        return {key: Amount(resource, amount, exact_amount(resource, amount))}

    def _annotation_values(self, gang: Gang, k: int, repair: repairs.Repair, pods: int | None) -> Mapping[str, object]:
        """The annotation that asks for subgroup k, and what to write into it."""
        spec = self._gang_spec(gang)
        return {} if spec is None else metax.annotation_repair(spec, k, repair.code, pods)

    def _gang_spec(self, gang: Gang) -> GangSpec | None:
        """The job of one of the problem's gangs."""
        j = self._gang_index(gang)
        return self.origins.gangs[j] if 0 <= j < len(self.origins.gangs) else None

    def _gang_index(self, gang: Gang) -> int:
        """The index of one of the problem's gangs; -1 for another one."""
        return self._gang_indices.get(id(gang), -1)

    @cached_property
    def _gang_indices(self) -> Mapping[int, int]:
        return {id(gang): j for j, gang in enumerate(self.problem.gangs)}

    def _values(self, gang: Gang, statement: Fact | repairs.Repair) -> dict[str, object]:
        """The fields of a fact or repair by their JSON keys: names for indices, amounts with their resource."""
        problem = self.problem
        items: Mapping[str, Sequence[Role | Subgroup | Queue | HyperNode]] = {
            "role": gang.roles,
            "subgroup": gang.subgroups,
            "queue": problem.queues,
            "hypernode": problem.hypernodes,
        }
        lists: Mapping[str, Sequence[Gang | Queue | Node]] = {
            "gangs": problem.gangs,
            "queues": problem.queues,
            "nodes": problem.nodes,
        }
        r = getattr(statement, "resource", None)
        resource = None if r is None else problem.resources[r]
        values: dict[str, object] = {} if resource is None else {"resource": resource}
        amounts = amounts_of(statement, resource or "pods")
        for name in (f.name for f in fields(statement)):
            value, plural = getattr(statement, name), name if name in lists else f"{name}s"
            if value is None or value == ():
                continue
            if name in items:
                values[name] = items[name][value].name
            elif plural in lists:
                values[plural] = tuple(lists[plural][i].name for i in (value if name == plural else (value,)))
            elif name in AMOUNT_KEYS:
                values[AMOUNT_KEYS[name]] = amounts[AMOUNT_KEYS[name]]
            elif name == "node_groups":
                values["nodeGroups"] = tuple(problem.node_groups[g] for g in value)
            elif name in ("tier", "seconds"):
                values[name] = value
        return values


def _piece_names(resource: str, request: int, fact: Fragmentation) -> Mapping[str, str]:
    """How much there is, how it lies on nodes, and what a pod asks for."""
    said = []
    for amount, nodes in fact.pieces[:MAX_LISTED_NAMES]:
        said.append(f"{rounded_amount(resource, amount)} on {f'each of {nodes} nodes' if nodes > 1 else '1 node'}")
    rest = sum(nodes for _, nodes in fact.pieces[MAX_LISTED_NAMES:])
    total = named_amount(resource, sum(amount * nodes for amount, nodes in fact.pieces))
    pieces = ", ".join(said) + (f" and less on {rest} more" if rest else "")
    when = "even when empty" if fact.never else "free"
    return {"total": f"{total} {when}", "pieces": pieces, "each": rounded_amount(resource, request)}


def _elastic_name(gang: Gang, repair: repairs.FewerPods) -> dict[str, str]:
    """The role whose pods are fewer, where that is its minimum and not all that it has."""
    role = None if repair.role is None else gang.roles[repair.role]
    return {"elastic": role.name} if role is not None and role.minimum < role.replicas else {}


def _edit_names(edits: Mapping[FieldPath, Edit], values: dict[str, object]) -> dict[str, str]:
    """The edits as a sentence names them; as `values` of the JSON with their whole paths."""
    if not edits:
        return {}
    values["edits"] = tuple(f"{path_text(path)}: {edit_value(amount)}" for path, amount in edits.items())
    return {"edits": ", ".join(edit_text(path, amount) for path, amount in edits.items())}


def _json_values(values: Mapping[str, Any], keys: Sequence[str]) -> dict[str, FactValue]:
    """The values that have a key, in order of the keys."""
    found = {key: values[key] for key in keys if key in values}
    return {key: value.json_value if isinstance(value, Amount) else value for key, value in found.items()}


def _text_names(values: Mapping[str, Any]) -> dict[str, object]:
    """The values as they are named in texts."""
    names = {key: _short_list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    if "nodeGroups" in values:
        names["named_groups"] = f"node group{'s' if len(values['nodeGroups']) > 1 else ''} {names['nodeGroups']}"
    if "seconds" in values:
        names["within"] = rounded_duration_text(values["seconds"])
        names["written_duration"] = duration_text(values["seconds"])
    return names


def _short_list(names: Sequence[str], count: int | None = None) -> str:
    """The first names, and how many more there are of `count`; of all names by default."""
    rest = (len(names) if count is None else count) - MAX_LISTED_NAMES
    return ", ".join(names[:MAX_LISTED_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _first_complete_text(texts: Sequence[str], names: Mapping[str, object], default: str) -> str:
    for text in texts:
        wanted = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
        if wanted <= names.keys():
            return text.format_map(names)
    return default
