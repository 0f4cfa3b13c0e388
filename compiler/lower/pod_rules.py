"""What pods require of one another -> the problem's relations, and which roles carry them or are counted by them.

Rules: Kubernetes' InterPodAffinity and PodTopologySpread, as far as the scheduler's plugin predicates enforces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

from compiler.fields.label_selector import Row, matches
from compiler.lower.eligibility import NodeMasks, Requirement, requirement
from compiler.lower.live import HOSTNAME, Bystander
from compiler.lower.origins import namespace_of
from compiler.specs import GangSpec, NodeSpec, PodRule, PodSpec, RoleSpec, SchedulerSpec, Toleration
from solver.problem import Gang, Relation

Item = TypeVar("Item")

ANYTHING = (Toleration(operator="Exists"),)
NEVER_ENOUGH = 2**31
"""Domains that no cluster has: the count is then from zero."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The pods that a rule is about: in one of the namespaces (None: in any) and matching all rows; selectors that
    match nothing are no Wanted."""

    rows: tuple[Row, ...]
    namespaces: tuple[str, ...] | None

    def counts(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (self.namespaces is None or namespace in self.namespaces) and matches(self.rows, labels)


@dataclass(frozen=True, slots=True)
class Bond:
    """A rule with everything settled that makes a difference. wanted: all of them hold; None: no pod at all. nodes: bit
    mask of those that count."""

    kind: str
    key: str
    wanted: tuple[Wanted, ...] | None
    nodes: int
    skew: int = 1
    least_domains: int = 1

    def counts(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return self.wanted is not None and all(part.counts(namespace, labels) for part in self.wanted)


@dataclass(frozen=True, slots=True)
class Relations:
    """relations, words: of the problem, index by index. ties: (gang, role) -> (bears, matches). guards: relation ->
    pods of no gang that carry it."""

    relations: tuple[Relation, ...]
    words: tuple[str, ...]
    ties: Mapping[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]]
    guards: tuple[tuple[str, ...], ...]

    def tied(self, gangs: Iterable[Gang]) -> tuple[Gang, ...]:
        """The same gangs, their roles in the relations."""
        return tuple(self._tied(j, gang) for j, gang in enumerate(gangs))

    def _tied(self, j: int, gang: Gang) -> Gang:
        if not any((j, t) in self.ties for t in range(len(gang.roles))):
            return gang
        ties = [self.ties.get((j, t), ((), ())) for t in range(len(gang.roles))]
        return replace(
            gang, roles=tuple(replace(role, bears=b, matches=m) for role, (b, m) in zip(gang.roles, ties, strict=True))
        )


def relations(
    gangs: Sequence[GangSpec],
    nodes: Sequence[NodeSpec],
    bystanders: Sequence[Bystander],
    scheduler: SchedulerSpec | None,
) -> Relations:
    """Of all rules of the gangs' pods, and of the bystanders' rules that keep our pods away. Rules that no pod can
    break are left out."""
    enforced = enforces(scheduler)
    masks = NodeMasks(nodes)
    bearers: dict[Bond, list[tuple[int, int]]] = {}
    for j, gang in enumerate(gangs):
        for t, role in enumerate(gang.roles):
            for rule in role.pod.rules:
                for bond in _bonds(rule, role, namespace_of(gang), masks) if rule.kind in enforced else ():
                    bearers.setdefault(bond, []).append((j, t))
    guards: dict[Bond, list[Bystander]] = {}
    for other in bystanders if "apart" in enforced else ():
        for rule in other.rules:
            bond = _bond(rule, other.namespace, other.labels, masks.all)
            guards.setdefault(bond, []).append(other)
    partitions = _Partitions(nodes)
    ours = _ByLabel(
        (spot, namespace_of(gangs[spot[0]]), gangs[spot[0]].roles[spot[1]].labels) for spot in _spots(gangs)
    )
    others = _ByLabel((other, other.namespace, other.labels) for other in (bystanders if bearers or guards else ()))
    made: list[Relation] = []
    words: list[str] = []
    named: list[tuple[str, ...]] = []
    ties: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for bond in dict.fromkeys([*bearers, *guards]):
        counted = ours.counted(bond)
        if bond not in bearers and not counted:
            continue
        domains, number = partitions.of(bond.key, bond.nodes)
        # A pod that is being deleted is no longer counted by a spread (Kubernetes' countPodsMatchSelector).
        present = _counts(
            domains,
            number,
            partitions,
            (other for other in others.counted(bond) if bond.kind != "even" or not other.leaving),
        )
        made.append(
            Relation(
                bond.kind,  # type: ignore[arg-type]
                domains,
                present,
                _counts(domains, number, partitions, guards[bond]) if bond in guards else (),
                bond.skew,
                bond.least_domains,
            )
        )
        words.append(say(bond))
        named.append(tuple(dict.fromkeys(f"{other.namespace}/{other.name}" for other in guards.get(bond, ()))))
        for side, spots in enumerate((bearers.get(bond, ()), counted)):
            for spot in dict.fromkeys(spots):
                ties.setdefault(spot, ([], []))[side].append(len(made) - 1)
    return Relations(
        tuple(made), tuple(words), {spot: (tuple(b), tuple(m)) for spot, (b, m) in ties.items()}, tuple(named)
    )


def _spots(gangs: Sequence[GangSpec]) -> Iterator[tuple[int, int]]:
    for j, gang in enumerate(gangs):
        for t in range(len(gang.roles)):
            yield j, t


class _ByLabel(Generic[Item]):
    """Things with a namespace and labels, found by one label that a rule names before the rest of the rule is tried on
    them."""

    def __init__(self, items: Iterable[tuple[Item, str, Mapping[str, str]]]) -> None:
        self.items = list(items)
        self._at: dict[tuple[str, str], list[int]] = {}
        for i, (_, _, labels) in enumerate(self.items):
            for pair in labels.items():
                self._at.setdefault(pair, []).append(i)

    def counted(self, bond: Bond) -> list[Item]:
        """Those that the rule counts, in order."""
        named = [
            (row[0], row[2][0])
            for part in bond.wanted or ()
            for row in part.rows
            if row[1] == "In" and len(row[2]) == 1
        ]
        few = min((self._at.get(pair, []) for pair in named), key=len) if named else range(len(self.items))
        return [item for item, namespace, labels in map(self.items.__getitem__, few) if bond.counts(namespace, labels)]


def enforces(scheduler: SchedulerSpec | None) -> frozenset[str]:
    """The kinds of rule that the scheduler's plugin predicates looks at; all of them where the repository says nothing
    of the scheduler."""
    if scheduler is None:
        return frozenset(("apart", "together", "even"))
    plugin = next((plugin for tier in scheduler.tiers for plugin in tier if plugin.name == "predicates"), None)
    if plugin is None or not plugin.flags.get("enablePredicate", True):
        return frozenset()
    affinity, spread = (
        plugin.arguments.get(f"predicate.{name}Enable") is not False for name in ("PodAffinity", "PodTopologySpread")
    )
    return frozenset((*(("apart", "together") if affinity else ()), *(("even",) if spread else ())))


def _bonds(rule: PodRule, role: RoleSpec, namespace: str, masks: NodeMasks) -> list[Bond]:
    """One relation for each rule; a spread with a minimum of domains has another, for what its pods see once they are
    pinned to their nodes.

    A pinned pod counts its own node alone (nodeAffinityPolicy Honor), which is fewer domains than the minimum: then at
    most maxSkew on a node.
    """
    inside = masks.all if rule.kind != "even" else _counting(rule, role.pod, masks)
    bond = _bond(rule, namespace, role.labels, inside)
    if rule.kind != "even" or rule.least_domains == 1 or not rule.minds_affinity:
        return [bond]
    return [bond, replace(bond, key=HOSTNAME, least_domains=NEVER_ENOUGH)]


def _bond(rule: PodRule, namespace: str, labels: Mapping[str, str], nodes: int) -> Bond:
    wanted: list[Wanted] | None = []
    for term in rule.terms:
        if term.selector is None or wanted is None:
            wanted = None
            continue
        like = [(key, "In", (labels[key],)) for key in term.match_keys if key in labels]
        unlike = [(key, "NotIn", (labels[key],)) for key in term.mismatch_keys if key in labels]
        namespaces = None if term.namespaces is None else term.namespaces or (namespace,)
        wanted.append(Wanted((*term.selector, *like, *unlike), namespaces))
    return Bond(rule.kind, rule.key, None if wanted is None else tuple(wanted), nodes, rule.skew, rule.least_domains)


def _counting(rule: PodRule, pod: PodSpec, masks: NodeMasks) -> int:
    """The nodes that a spread counts: with the keys of all that the pod spreads over, and those that its policies do
    not leave out."""
    selector, affinity, tolerations, name, *_ = requirement(pod)
    wanted: Requirement = (
        selector if rule.minds_affinity else frozenset(),
        affinity if rule.minds_affinity else None,
        tolerations if rule.minds_taints else ANYTHING,
        name,
        "",
        None,
    )
    mask = masks.matching(wanted)
    for other in pod.rules:
        if other.kind == "even" and other.key != HOSTNAME:
            mask &= masks.labelled(other.key)
    return mask


class _Partitions:
    """The nodes by the values of a label; every node has a hostname, its name where the label is missing."""

    def __init__(self, nodes: Sequence[NodeSpec]) -> None:
        self.nodes = nodes
        self._known: dict[tuple[str, int], tuple[tuple[int | None, ...], int]] = {}

    @cached_property
    def index(self) -> dict[str, int]:
        """Node name -> its number."""
        return {node.name: n for n, node in enumerate(self.nodes)}

    def of(self, key: str, inside: int) -> tuple[tuple[int | None, ...], int]:
        """(node -> domain, number of domains), domains numbered by their first node. inside: bit mask of the nodes that
        have one."""
        if (key, inside) not in self._known:
            bits = format(inside, f"0{len(self.nodes)}b")[::-1]
            values = [
                node.labels.get(key, node.name if key == HOSTNAME else None) if bits[n] == "1" else None
                for n, node in enumerate(self.nodes)
            ]
            number = {value: d for d, value in enumerate(dict.fromkeys(value for value in values if value is not None))}
            self._known[key, inside] = tuple(None if value is None else number[value] for value in values), len(number)
        return self._known[key, inside]


def _counts(
    domains: Sequence[int | None], number: int, partitions: _Partitions, pods: Iterable[Bystander]
) -> tuple[int, ...]:
    found = [0] * number
    for pod in pods:
        if (d := domains[partitions.index[pod.node]]) is not None:
            found[d] += 1
    return tuple(found)


def say(bond: Bond) -> str:
    """The rule in a user's words."""
    if bond.kind == "even":
        if bond.least_domains == NEVER_ENOUGH:
            return f"minDomains leaves at most {bond.skew} on one node"
        return f"topology spread by {bond.key}, maxSkew {bond.skew}" + (
            f", minDomains {bond.least_domains}" if bond.least_domains > 1 else ""
        )
    name = "pod anti-affinity" if bond.kind == "apart" else "pod affinity"
    rows = dict.fromkeys(row for part in bond.wanted or () for row in part.rows)
    return f"required {name} by {bond.key}" + (f" to {', '.join(map(_row, rows))}" if rows else "")


def _row(row: Row) -> str:
    key, operator, values = row
    match operator:
        case "In":
            return f"{key}={'|'.join(values)}"
        case "NotIn":
            return f"{key}!={'|'.join(values)}"
        case "Exists":
            return key
        case _:
            return f"!{key}"
