"""Why a gang waits and what would help: the solver's facts and repairs said in the user's own names.

A code is for ever; its sentences stand in one table here, from which docs/reasons.md is made.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from compiler.explain.provenance import Source
from compiler.fields.amounts import json_amount, named_amount, rounded_amount, slot_request_text
from compiler.fields.duration import duration_text
from compiler.fields.timestamp import rfc3339
from compiler.lower.origins import Origins
from compiler.volcano import metax
from solver.plan import Fact, Repair
from solver.problem import Gang, Problem

FactValue = str | int | float | bool | tuple[str, ...]
MAX_LISTED_NAMES = 3
"""How many other gangs, queues or nodes a sentence names before it counts the rest."""


@dataclass(frozen=True, slots=True)
class CodedMessage:
    """A code, its sentence, and the numbers in it (amounts as in `compiler.fields.amounts.number`). never: waiting
    cannot help.

    also: of a repair, the changes that must come with it; its message says them too. sources: of a fact, the
    objects that it comes from; of a repair, where it is made or what is waited for.
    """

    code: str
    message: str
    facts: Mapping[str, FactValue] = field(default_factory=dict)
    never: bool = False
    also: tuple[CodedMessage, ...] = ()
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageTemplates:
    """title: the code in a few words. texts: the first whose names are all known is used. never: as texts, when the
    empty cluster refuses too.

    special: before all of these, where what they name plays a part."""

    title: str
    texts: tuple[str, ...]
    never_texts: tuple[str, ...] = ()
    remedy: str = ""
    special_texts: tuple[str, ...] = ()


REASON_TEMPLATES: Mapping[str, MessageTemplates] = {
    "GW101": MessageTemplates(
        "queue capability reached",
        (
            "queue {queue} may hold {limit} and has {available:n} left; the job asks for {asked:n}",
            "queue {queue} has {available} of its capability left; the job asks for {asked:n}",
            "queue {queue} has reached its capability",
        ),
        ("queue {queue} may never hold more than {limit}; the job asks for {asked:n}",),
        "Raise the queue's capability, ask for less, or use another queue.",
    ),
    "GW102": MessageTemplates(
        "not enough of a resource is free",
        (
            "{available} free on the nodes open to it; the job asks for {asked:n}",
            "not enough {resource} is free on the nodes open to it",
        ),
        ("the nodes open to it have {available} even when empty; the job asks for {asked:n}",),
        "Wait for a job to end, ask for less, or add nodes.",
    ),
    "GW103": MessageTemplates(
        "no node can hold one pod",
        (
            "no node open to it has room for one pod of role {role} now: a pod asks for {asked}, the roomiest node has {available:n}",
            "no node open to it has enough {resource} free for one pod of role {role}",
            "no node open to it has room for one pod of role {role}",
        ),
        (
            "no node open to it is large enough for one pod of role {role}: a pod asks for {asked}, the largest node has {available:n}",
            "no node open to it has enough {resource} for one pod of role {role}",
            "no node open to it is large enough for one pod of role {role}",
        ),
        "Make the pod smaller, or add a larger kind of node.",
    ),
    "GW104": MessageTemplates(
        "no domain of the allowed tier has room",
        (
            "it must sit inside one tier-{tier} domain; the best, {hypernode}, has room for {available:n} of {asked:pods}",
            "it must sit inside one tier-{tier} domain, and none has room for {asked:pods}",
            "it must sit inside one tier-{tier} domain, and none has room",
        ),
        (
            "it must sit inside one tier-{tier} domain; even empty, the best, {hypernode}, holds {available:n} of {asked:pods}",
            "it must sit inside one tier-{tier} domain, and even empty none holds {asked:pods}",
        ),
        "Allow a higher tier, or wait for a whole domain.",
    ),
    "GW105": MessageTemplates(
        "others are served first",
        (
            "there is room for it alone, but jobs before it in order take that room: {gangs}",
            "there is room for it alone, but jobs before it in order take that room",
        ),
        remedy="Wait, or raise the job's priority or its queue's share.",
    ),
    "GW106": MessageTemplates(
        "the room is kept for guarantees",
        (
            "{available} free beyond what other queues are guaranteed ({queues}); the job asks for {asked:n}",
            "{available} free beyond what other queues are guaranteed; the job asks for {asked:n}",
            "what it would fit into is kept for queue {queue}, which is guaranteed whole domains of tier {tier}",
            "what is free is kept for the guarantees of other queues",
        ),
        (
            "beyond what other queues are guaranteed ({queues}) there is never more than {available}; the job asks for {asked:n}",
            "beyond what other queues are guaranteed there is never more than {available}; the job asks for {asked:n}",
        ),
        "Lower the other queues' guarantees, or give this queue one. Without a hierarchy of queues the plugins capacity and proportion keep what is "
        "guaranteed to a queue from those below it too.",
    ),
    "GW107": MessageTemplates(
        "no node is open to a role",
        (
            "no node matches the node selector, affinity and tolerations of role {role}",
            "no node matches its node selector, affinity and tolerations",
        ),
        remedy="Correct the selector, affinity or topologyPolicy, add the toleration, or label the nodes.",
        special_texts=(
            "no node that the selector, affinity and tolerations of role {role} match has its topologyPolicy {policy} and a static CPU manager",
        ),
    ),
    "GW108": MessageTemplates(
        "larger than the cluster",
        (
            "the job asks for {asked}; the whole cluster, empty, has {limit:n}",
            "the job asks for {asked}, more than the whole cluster has",
        ),
        remedy="Ask for less, or add nodes.",
    ),
    "GW109": MessageTemplates(
        "subgroups cannot be formed whole",
        (
            "it needs {asked:groups} of {limit:pods}, each whole inside one tier-{tier} domain; the domains have room for {available:n}",
            "it needs groups of {limit:pods}, each whole inside one tier-{tier} domain, and the domains have not enough room",
            "not enough domains have room for a whole group",
        ),
        (
            "it needs {asked:groups} of {limit:pods}, each whole inside one tier-{tier} domain; even empty, the domains hold {available:n}",
            "it needs groups of {limit:pods}, each whole inside one tier-{tier} domain, and even empty the domains do not hold enough of them",
        ),
        "Make the groups smaller, or allow a higher tier.",
    ),
    "GW110": MessageTemplates(
        "no decision was proved in time",
        ("the solver reached its limit before it could prove whether the job fits",),
        remedy="Raise the cluster's time limit, or plan again.",
    ),
    "GW111": MessageTemplates(
        "suspended",
        ("its owner suspended it, or it names another scheduler",),
        remedy="Resume the job.",
    ),
    "GW112": MessageTemplates(
        "the queue's proportional share is used up",
        (
            "queue {queue} deserves {limit} by its weight and has {available:n} of it left; the job asks for {asked:n}",
            "queue {queue} has used up what it deserves by its weight",
        ),
        remedy="Raise the queue's weight, ask for less, or wait until other queues ask for less: the plugin proportion lets no queue exceed its share.",
    ),
    "GW113": MessageTemplates(
        "the queue takes no jobs",
        (
            "queue {queue} is closed, or has children that take the jobs",
            "its queue is closed, or has children that take the jobs",
        ),
        remedy="Open the queue, or name another one.",
    ),
    "GW114": MessageTemplates(
        "room is reserved",
        ("there is room for it, but it would still be there when {gangs} needs what is reserved for it",),
        remedy="Wait, or say with gangplan.dev/expected-duration that it ends before the reserved job starts.",
    ),
    "GW115": MessageTemplates(
        "an earlier job of its queue waits",
        (
            "{gangs} comes before it in queue {queue}, which starts its jobs in strict order",
            "its queue starts its jobs in strict order",
        ),
        remedy="Wait, raise the job's priority, or see what the earlier job waits for.",
    ),
    "GW116": MessageTemplates(
        "maintenance comes first",
        ("the nodes that have room for it close for maintenance before it would end",),
        remedy="Wait until it is over, or say with gangplan.dev/expected-duration that the job ends before.",
    ),
    "GW117": MessageTemplates(
        "no room beside other pods, or apart from them",
        (
            "there is room for it, but not under what role {role} says of other pods: {rule}",
            "there is room for it, but not under what its pods say of other pods",
        ),
        ("even empty, the cluster has no room under what role {role} says of other pods: {rule}",),
        "Soften the rule (preferred, ScheduleAnyway, a larger maxSkew), wait for the other pods to come or to go, or add nodes.",
        special_texts=(
            "subgroup {subgroup} must sit {rule}, and none has room for enough of its pods beside the rest of the job",
        ),
    ),
    "GW118": MessageTemplates(
        "no device or NUMA cell has room",
        (
            "a pod of role {role} asks for {asked} of one device or NUMA cell; the roomiest has {available:n} left, the largest has {limit:n} in all",
            "its nodes have room in sum, but their devices or NUMA cells for {available:n} of {asked:pods} of role {role}; each takes {share}",
            "its nodes have room in sum, but their devices or NUMA cells have not",
        ),
        (
            "a pod of role {role} asks for {asked} of one device or NUMA cell; even empty, the largest has {limit:n}",
            "its nodes are large enough, but their devices or NUMA cells, even empty, hold {available:n} of {asked:pods} of role {role}; "
            "each takes {share}",
            "its nodes are large enough, but their devices or NUMA cells are not",
        ),
        "Ask each pod for less of one device or NUMA cell, wait for one to be free, or use nodes that are divided otherwise.",
    ),
    "GW119": MessageTemplates(
        "the free room is in pieces",
        (
            "enough is free on the nodes open to it, but in pieces: there is room for {available:n} of {asked:pods} of role {role}",
            "enough is free on the nodes open to it, but in pieces: there is room for {available:n} of {asked:pods}",
            "enough is free on the nodes open to it, but in pieces that are too small for its pods",
        ),
        (
            "the nodes open to it have enough in sum, but even empty they hold {available:n} of {asked:pods} of role {role}",
            "the nodes open to it have enough in sum, but even empty they hold {available:n} of {asked:pods}",
        ),
        "Wait for whole nodes, make the pods smaller, or ask for fewer.",
    ),
    "GW120": MessageTemplates(
        "too few nodes are open to a role",
        (
            "the nodes that match the node selector, affinity and tolerations of role {role} hold {available:n} of {asked:pods}, even empty",
        ),
        remedy="Widen the selector or affinity, change the topologyPolicy, add the toleration, or ask for fewer pods.",
        special_texts=(
            "the nodes with topologyPolicy {policy} and a static CPU manager that the selector, affinity and tolerations of role {role} match "
            "hold {available:n} of {asked:pods}, even empty",
        ),
    ),
    "GW122": MessageTemplates(
        "nodes are away",
        (
            "there would be room with {nodes}, not ready or cordoned for now",
            "there would be room with nodes that are not ready or cordoned for now",
        ),
        remedy="Bring the nodes back, or wait.",
    ),
    "GW121": MessageTemplates(
        "its own pods stand in the way",
        (
            "{asked:pods} of it are missing and find no room beside its pods that run; were those to stop, all of it would fit elsewhere",
        ),
        remedy="Let its running pods be deleted, so that it starts anew, or wait for room beside them.",
    ),
}

REPAIR_TEMPLATES: Mapping[str, MessageTemplates] = {
    "GR101": MessageTemplates("raise a capability", ("{amount} more of capability for queue {queue}",)),
    "GR102": MessageTemplates(
        "allow a higher tier", ("highestTierAllowed: {tier} for its groups ({subgroup})", "highestTierAllowed: {tier}")
    ),
    "GR103": MessageTemplates("wait for room", ("room to be freed by jobs that run",)),
    "GR104": MessageTemplates(
        "add nodes",
        (
            "{amount:nodes} more like {nodes} under {hypernode}",
            "{amount:nodes} more like {nodes}",
            "{amount:nodes} more",
            "more nodes",
        ),
    ),
    "GR105": MessageTemplates(
        "ask for fewer pods",
        ("{amount:pods} of role {role} instead of {now:n}", "{amount:pods} at least instead of {now:n}", "fewer pods"),
    ),
    "GR106": MessageTemplates(
        "make the subgroups smaller",
        (
            "groups of {amount:pods} instead of {now:n} ({subgroup})",
            "groups of {amount:pods} instead of {now:n}",
            "smaller groups",
        ),
        special_texts=("{annotation}: {written}, groups of {amount:pods} instead of {now:n}",),
    ),
    "GR107": MessageTemplates(
        "make the topology a wish",
        ("a soft topology instead of a hard one for its groups ({subgroup})", "a soft topology instead of a hard one"),
        special_texts=("{annotation}: {written}, so that a whole group in one supernode is a wish",),
    ),
    "GR108": MessageTemplates(
        "lower a guarantee of another queue",
        ("{amount} less of guarantee for queue {queue}", "a smaller guarantee of another queue"),
    ),
    "GR109": MessageTemplates(
        "wait for others to end",
        (
            "wait for the end of {gangs}, expected about {at}",
            "wait for the end of {gangs}, expected in {within}",
            "wait for the end of {gangs}",
            "wait for running jobs to end",
        ),
    ),
    "GR110": MessageTemplates(
        "raise a queue's weight",
        ("weight {amount:n} instead of {now:n} for queue {queue}", "more weight for its queue"),
    ),
    "GR111": MessageTemplates("open a queue", ("open queue {queue}", "open its queue")),
    "GR112": MessageTemplates(
        "let a role use other nodes",
        ("let role {role} use nodes like {nodes} as well", "let it use other nodes as well"),
    ),
    "GR113": MessageTemplates("start anew", ("delete its pods that run, so that it starts anew where all of it fits",)),
    "GR114": MessageTemplates("raise its priority", ("a priority above {amount:n}", "a higher priority")),
    "GR115": MessageTemplates(
        "make the pods smaller", ("{amount} for a pod of role {role} instead of {now:n}", "smaller pods")
    ),
    "GR116": MessageTemplates(
        "bring nodes back", ("wait for {nodes} to be ready and open again", "wait for nodes to come back")
    ),
    "GR117": MessageTemplates(
        "lift a queue's strict order", ("queue {queue} without its strict order", "its queue without its strict order")
    ),
    "GR118": MessageTemplates(
        "wait for others to start",
        (
            "wait for {gangs} to start, expected about {at}",
            "wait for {gangs} to start, expected in {within}",
            "wait for {gangs} to start",
            "wait for those before it to start",
        ),
    ),
    "GR119": MessageTemplates(
        "keep fewer domains for another queue",
        (
            "{amount:n} fewer of the whole domains guaranteed to queue {queue}",
            "fewer whole domains guaranteed to another queue",
        ),
    ),
    "GR120": MessageTemplates("use another queue", ("queue {queue} instead of its own", "another queue")),
    "GR121": MessageTemplates(
        "say that it ends sooner", ("gangplan.dev/expected-duration of at most {within}", "a shorter expected duration")
    ),
    "GR122": MessageTemplates(
        "wait for the end of maintenance",
        (
            "wait for the end of maintenance about {at}",
            "wait {within} for the end of maintenance",
            "wait for the end of maintenance",
        ),
    ),
}


TIMED_REPAIRS = frozenset({"GR109", "GR118", "GR122"})
"""Repairs whose seconds lead to a moment."""

NODE_ELIGIBILITY_REASONS = frozenset({"GW107", "GW120"})
"""Reasons that lie in which nodes are open to a role."""


class Explainer:
    """Says facts about one problem."""

    def __init__(self, problem: Problem, origins: Origins) -> None:
        self.problem, self.origins = problem, origins

    def fact_message(self, gang: Gang, fact: Fact) -> CodedMessage:
        sentence = REASON_TEMPLATES[fact.code]
        resource = None if fact.resource is None else self.problem.resources[fact.resource]
        facts: dict[str, FactValue] = {}
        if fact.role is not None:
            facts["role"] = gang.roles[fact.role].name
        if (
            fact.code in NODE_ELIGIBILITY_REASONS
            and fact.role is not None
            and (policy := self.origins.excluding_numa_policies.get((self._gang_index(gang), fact.role)))
        ):
            facts["policy"] = policy
        if fact.queue is not None:
            facts["queue"] = self.problem.queues[fact.queue].name
        if resource is not None:
            facts["resource"] = resource
        if fact.hypernode is not None:
            facts["hypernode"] = self.problem.hypernodes[fact.hypernode].name
        if fact.tier is not None:
            facts["tier"] = fact.tier
        amounts = {"asked": fact.asked, "available": fact.available, "limit": fact.limit}
        known = {name: amount for name, amount in amounts.items() if amount is not None}
        facts |= {name: json_amount(resource or "pods", amount) for name, amount in known.items()}
        if fact.pod_rule is not None and fact.pod_rule < len(self.origins.rule_texts):
            facts["rule"] = self.origins.rule_texts[fact.pod_rule]
        if fact.pod_rule is not None and fact.pod_rule in self.origins.subgroup_of_rule:
            j, k = self.origins.subgroup_of_rule[fact.pod_rule]
            facts["subgroup"] = self.origins.gangs[j].subgroups[k].name
        if fact.subgroup is not None:
            facts["subgroup"] = gang.subgroups[fact.subgroup].name
        objects = {
            "gangs": tuple(self.problem.gangs[j].name for j in fact.gangs),
            "queues": tuple(self.problem.queues[q].name for q in fact.queues),
            "nodes": tuple(self.problem.nodes[n].name for n in fact.nodes),
        }
        facts |= {name: named for name, named in objects.items() if named}
        if fact.never:
            facts["never"] = True
        listed = {name: _short_list(named) for name, named in objects.items()}
        names = {**facts, **{name: _Amount(resource, amount) for name, amount in known.items()}, **listed}
        if fact.code == "GW118" and fact.role is not None and (portions := gang.roles[fact.role].slot_requests):
            names["share"] = slot_request_text(portions[0], self.problem.resources)
        texts = (*sentence.special_texts, *(sentence.never_texts if fact.never else ()), *sentence.texts)
        return CodedMessage(fact.code, _first_complete_text(texts, names, sentence.title), facts, fact.never)

    def _gang_index(self, gang: Gang) -> int:
        """The index of one of the problem's gangs; -1 for another one."""
        return self._gang_indices.get(id(gang), -1)

    @cached_property
    def _gang_indices(self) -> Mapping[int, int]:
        return {id(gang): j for j, gang in enumerate(self.problem.gangs)}

    @staticmethod
    def suspended_message() -> CodedMessage:
        """For a job that is in no problem at all."""
        return CodedMessage("GW111", REASON_TEMPLATES["GW111"].texts[0])

    def repair_message(self, gang: Gang, repair: Repair) -> CodedMessage:
        """One change; its sentence and facts tell of those that must come with it."""
        sentence, problem = REPAIR_TEMPLATES[repair.code], self.problem
        resource = None if repair.resource is None else problem.resources[repair.resource]
        said: dict[str, FactValue | None] = {
            "role": None if repair.role is None else gang.roles[repair.role].name,
            "subgroup": None if repair.subgroup is None else gang.subgroups[repair.subgroup].name,
            "queue": None if repair.queue is None else problem.queues[repair.queue].name,
            "resource": resource,
            "hypernode": None if repair.hypernode is None else problem.hypernodes[repair.hypernode].name,
            "tier": repair.tier,
            "gangs": tuple(problem.gangs[j].name for j in repair.gangs) or None,
            "nodes": tuple(problem.nodes[n].name for n in repair.nodes) or None,
        }
        facts: dict[str, FactValue] = {name: value for name, value in said.items() if value is not None}
        if repair.seconds is not None:
            facts["seconds"] = repair.seconds
        if repair.seconds is not None and repair.code in TIMED_REPAIRS and self.origins.now is not None:
            facts["at"] = rfc3339(self.origins.now + repair.seconds)
        if repair.subgroup is not None and (j := self._gang_index(gang)) >= 0:
            facts |= metax.annotation_repair(self.origins.gangs[j], repair.subgroup, repair.code, repair.amount)
        within = None if repair.seconds is None else duration_text(repair.seconds)
        names: dict[str, object] = {
            **facts,
            "within": within,
            "gangs": _short_list(facts.get("gangs", ())),
            "nodes": _short_list(facts.get("nodes", ())),
        }
        for name, amount in (("amount", repair.amount), ("now", repair.current_amount)):
            if amount is not None:
                facts[name] = json_amount(resource or "pods", amount)
                names[name] = _Amount(resource, amount)
        also = tuple(self.repair_message(gang, other) for other in repair.also)
        message = " and ".join(
            (
                _first_complete_text((*sentence.special_texts, *sentence.texts), names, sentence.title),
                *(other.message for other in also),
            )
        )
        return CodedMessage(repair.code, message, facts, also=also)


class _Amount:
    """An amount in a sentence: with its resource, "n" the number alone, or else a count of what the format names
    ("{asked:pods}")."""

    def __init__(self, resource: str | None, amount: int) -> None:
        self.resource, self.amount = resource, amount

    def __format__(self, noun: str) -> str:
        if not noun:
            return named_amount(self.resource or "pods", self.amount)
        if noun == "n":
            return rounded_amount(self.resource or "pods", self.amount)
        return f"{self.amount} {noun[:-1] if self.amount == 1 else noun}"


def _short_list(names: object) -> str | None:
    if not isinstance(names, tuple) or not names:
        return None
    rest = len(names) - MAX_LISTED_NAMES
    return ", ".join(names[:MAX_LISTED_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _first_complete_text(texts: Sequence[str], names: Mapping[str, object], default: str) -> str:
    for text in texts:
        if all(
            names.get(wanted) is not None for _, wanted, _, _ in string.Formatter().parse(text) if wanted is not None
        ):
            return text.format_map(names)
    return default


REASONS_INTRODUCTION = """\
A job gets the smallest set of reasons that suffices: with all of them out of the way it would start, with one of them left it would not.
First those that waiting does not help (`never`, always proved), then what is in its way beside the jobs that run, in its queues and on the
nodes. What the plan gives to others is blamed only where nothing else is: a job that cannot start anyway is not kept out by those who got
the room.

Each reason says where it comes from: `gangplan plan` names the first lines of the repository, `gangplan explain` all of them, and
`from` in the JSON holds them one by one. What only the cluster knows (nodes, running pods) is said by its name.
"""

REPAIRS_INTRODUCTION = """\
Each repair was tried: with it the job starts beside the rest of the plan, and it is the least of its kind. At most a few are said, in this
order: what the job's owner can change without giving up pods; waiting; fewer pods; a higher priority (with which the job is decided first,
so that others may wait instead); the queues; the nodes. Where fewer than two single changes are known, two together are tried as well;
`also` in the JSON holds what must come with a change. How many are tried is limited by count, never by the clock.

Where it is known when jobs end, those are named after whose end the job starts soonest, and `seconds` and `at` say when that is. A job for which
there is room (GW106 of whole domains, GW114, GW115, GW116) is told what would give it its turn; a time in a message is expected, no promise.
`gangplan explain` and `from` in the JSON say where each change is made, or where it would be written.
"""


def reasons_page() -> str:
    """docs/reasons.md."""
    rows = [
        "# Why a job waits: the codes\n",
        "Made from `compiler/explain/reasons.py`; a test keeps it current. A code never changes its meaning.",
        "`gangplan plan -o json` gives the same codes with their numbers: cpu in cores, memory in bytes, everything else as a count.\n",
        REASONS_INTRODUCTION,
    ]
    for code, sentence in REASON_TEMPLATES.items():
        rows.append(f"## {code}: {sentence.title}\n")
        rows.append(f"> {_markdown_text(sentence.texts[0])}\n")
        rows += [f"Or, where that is why:\n\n> {_markdown_text(text)}\n" for text in sentence.special_texts]
        if sentence.never_texts:
            rows.append(f"Or, when waiting cannot help:\n\n> {_markdown_text(sentence.never_texts[0])}\n")
        rows.append(f"{sentence.remedy}\n")
    rows += ["# What would help\n", REPAIRS_INTRODUCTION]
    rows += [
        f"* **{code}** {sentence.title}: {_markdown_text(_whole_job_text(sentence))}"
        for code, sentence in REPAIR_TEMPLATES.items()
    ]
    return "\n".join(rows) + "\n"


def _whole_job_text(sentence: MessageTemplates) -> str:
    """The sentence about the whole job, where there is another one about its groups."""
    return next(text for text in sentence.texts if "{subgroup}" not in text or text is sentence.texts[-1])


def _markdown_text(text: str) -> str:
    return "".join(f"{part}{f'*{name}*' if name else ''}" for part, name, _, _ in string.Formatter().parse(text))
