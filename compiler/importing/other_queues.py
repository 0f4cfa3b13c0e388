"""Queues of Kueue and KAI as Volcano's, and their features without an equal.

A ClusterQueue or Cohort of Kueue deserves its nominal quotas, added up over flavors, a Cohort those of its members as
well; the part that is not lent is guaranteed, and the borrowing limit is the capability above that. A Queue of KAI
deserves its quota, has its limit as capability and its weight over the quota as weight. Devices are whole in Volcano.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from importlib.resources import files
from math import lcm
from typing import Any

from compiler.fields.quantity import MILLI_RESOURCES, QuantityError, is_countable, parse_quantity
from compiler.importing.written_form import Imported
from compiler.kinds.queue import STRICT_ORDER
from compiler.kubernetes import CLOSED_ANNOTATION, DEFAULT_QUEUE, ORDER_ANNOTATION, ROOT_QUEUE, Object, name_of
from compiler.run_kinds import run_kind_of
from compiler.validation.judge import mapping

CLUSTER_QUEUE, COHORT, KAI_QUEUE = "ClusterQueue.kueue.x-k8s.io", "Cohort.kueue.x-k8s.io", "Queue.scheduling.run.ai"
PARENT_FIELDS = ("cohortName", "cohort", "parentName", "parent", "parentQueue")
"""Names in different versions of these kinds."""
_KAI_UNITS = {
    "gpu": ("nvidia.com/gpu", Fraction(1)),
    "cpu": ("cpu", Fraction(1, 1000)),
    "memory": ("memory", Fraction(10**6)),
}
"""Resource of KAI -> ours, and its unit: GPUs, thousandths of a CPU, megabytes."""
_MAX_WEIGHT = 65535
_SUFFIXES = {CLUSTER_QUEUE: "-kueue", COHORT: "-cohort", KAI_QUEUE: "-kai"}
"""Kind.group -> what a queue of it has after a name that another queue has."""

Amounts = dict[str, Fraction]


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads((files("compiler.importing") / "other_queues.toml").read_text("utf-8"))


def queue_kinds() -> frozenset[str]:
    """Kind.group of all that is read, or named as having no equal."""
    table = _table()
    return frozenset((CLUSTER_QUEUE, COHORT, KAI_QUEUE, *table["kinds"]))


@dataclass(frozen=True, slots=True)
class _Share:
    """One queue, and the name that it gets. parent: of a queue of the same system, "" for none. deserved: of a Cohort
    with what its members deserve. limits: KAI's limits; what of a resource a queue of Kueue may borrow, where that is
    limited."""

    name: str
    kind: str
    parent: str = ""
    weight: Fraction = Fraction(1)
    priority: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)
    guarantee: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)

    @property
    def capability(self) -> Amounts:
        """Its own. Source: Kueue's concepts of a ClusterQueue: without a parent there is nobody to borrow from."""
        if self.kind == KAI_QUEUE:
            return self.limits
        if not self.parent:
            return self.deserved
        return {key: amount + self.limits[key] for key, amount in self.deserved.items() if key in self.limits}

    def with_member(self, member: _Share) -> _Share:
        """Return the Cohort's share with a member's deserved and guaranteed amounts added."""
        deserved, guarantee = _sum(self.deserved, member.deserved), _sum(self.guarantee, member.guarantee)
        return replace(self, deserved=deserved, guarantee=guarantee)


def translate_queues(objects: Iterable[Object], taken: Set[str] = frozenset()) -> Imported:
    """Return the queues among objects of `queue_kinds`, by name. taken: names of Volcano's own queues; a queue whose
    name is taken, be it by one of another kind, gets another."""
    items = sorted(objects, key=lambda item: (run_kind_of(item), name_of(item)))
    queues = [item for item in items if run_kind_of(item) not in _table()["kinds"]]
    notes = list[str]()
    read = {(run_kind_of(item), name_of(item)): _share(item, notes) for item in queues}
    missing = {key for share in read.values() if (key := _parent_key(share)) is not None} - read.keys()
    read |= {(kind, name): _Share(name, kind) for kind, name in sorted(missing)}
    for key, member in [*read.items()]:
        for above in _ancestors(read, key) if member.kind != KAI_QUEUE else ():
            read[above] = read[above].with_member(member)
    names = _names([*read], taken, notes)
    scales = _scales(read.values())
    documents = []
    for key, share in sorted(read.items(), key=lambda each: names[each[0]]):
        weight = min(_MAX_WEIGHT, max(1, int(share.weight * scales[_family(share)])))
        document = _document(share, names, weight, _capability(read, key))
        notes += _rounding_notes(document, share)
        documents.append(document)
    return Imported(documents, [*notes, *_field_notes(queues, taken), *_kind_notes(items)])


def _parent_key(share: _Share) -> tuple[str, str] | None:
    """Kind and name of the parent: a Cohort's or ClusterQueue's is a Cohort."""
    return (KAI_QUEUE if share.kind == KAI_QUEUE else COHORT, share.parent) if share.parent else None


def _ancestors(shares: Mapping[tuple[str, str], _Share], key: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """From the parent on; of a loop each once."""
    seen, above = {key}, _parent_key(shares[key])
    while above is not None and above not in seen:
        yield above
        seen.add(above)
        above = _parent_key(shares[above])


def _capability(shares: Mapping[tuple[str, str], _Share], key: tuple[str, str]) -> Amounts:
    """Its own, where that of no ancestor is less."""
    found = dict(shares[key].capability)
    for above in _ancestors(shares, key):
        limits = shares[above].capability
        found = {resource: min(amount, limits.get(resource, amount)) for resource, amount in found.items()}
    return found


def _names(keys: Iterable[tuple[str, str]], taken: Set[str], notes: list[str]) -> Mapping[tuple[str, str], str]:
    """(kind, name) -> the name as a queue of Volcano, in the order of the kinds. A name that another queue has by
    itself is taken as well."""
    keys, found = sorted(keys), dict[tuple[str, str], str]()
    unfree = {*taken, *(name for _, name in keys)}
    first = {name: kind for kind, name in reversed(keys)}
    for kind, name in keys:
        unique = name
        if name in taken or first[name] != kind:
            while unique in unfree:
                unique += _SUFFIXES[kind]
            notes.append(f"{kind.partition('.')[0]} {name}: another queue has this name; it is {unique} now")
        found[kind, name] = unique
        unfree.add(unique)
    return found


def _family(share: _Share) -> tuple[bool, str]:
    """Return a key that is equal for shares with one parent, or for the uppermost of one system."""
    return share.kind == KAI_QUEUE, share.parent


def _scales(shares: Iterable[_Share]) -> Mapping[tuple[bool, str], Fraction]:
    """Family -> by what the weights become whole numbers of which Volcano takes the greatest."""
    siblings = defaultdict[tuple[bool, str], list[Fraction]](list)
    for share in shares:
        siblings[_family(share)].append(share.weight)
    return {
        key: min(Fraction(lcm(*(weight.denominator for weight in weights))), _MAX_WEIGHT / max(Fraction(1), *weights))
        for key, weights in siblings.items()
    }


@dataclass(frozen=True, slots=True)
class _Fields:
    """Reads amounts of an object; unreadable ones are noted."""

    item: Object
    notes: list[str]

    def amount(self, row: Mapping[str, Any], key: str, resource: str = "") -> Fraction | None:
        """None where it is missing or unreadable."""
        try:
            return None if row.get(key) is None else parse_quantity(row[key])
        except QuantityError as error:
            of_resource = f" of {resource}" if resource else ""
            of_item = f"{self.item['kind']} {name_of(self.item)}"
            self.notes.append(f"{key}{of_resource} of {of_item}: {error}; it is left out")
            return None

    def weight(self, row: Mapping[str, Any], key: str) -> Fraction:
        weight = self.amount(row, key)
        if weight == 0:
            self.notes.append(f"{key} 0 of {self.item['kind']} {name_of(self.item)}: Volcano's least weight is 1")
        return Fraction(1) if weight is None else weight


def _share(item: Object, notes: list[str]) -> _Share:
    spec, kind, fields = item.get("spec") or {}, run_kind_of(item), _Fields(item, notes)
    parents = filter(None, map(spec.get, PARENT_FIELDS))
    parent = next((name for name in parents if isinstance(name, str)), "")
    share = _Share(name_of(item), kind, parent)
    return _kai_share(share, spec, fields) if kind == KAI_QUEUE else _kueue_share(share, spec, fields)


def _kueue_share(share: _Share, spec: Mapping[str, Any], fields: _Fields) -> _Share:
    nominal, guarantee, borrowed = defaultdict[str, Fraction](Fraction), Amounts(), defaultdict[str, Fraction](Fraction)
    left_out, unlimited = set[str](), set[str]()
    for row in _rows(spec, "resourceGroups", "flavors", "resources"):
        resource = str(row.get("name"))
        amount = fields.amount(row, "nominalQuota", resource) if row.get("nominalQuota") is not None else Fraction()
        if amount is None:
            left_out.add(resource)  # without it the sum's limit is unknown
            continue
        nominal[resource] += amount
        if (lent := fields.amount(row, "lendingLimit", resource)) is not None:
            guarantee[resource] = guarantee.get(resource, Fraction()) + max(Fraction(), amount - lent)
        if (most := fields.amount(row, "borrowingLimit", resource)) is not None:
            borrowed[resource] += most
        else:
            unlimited.add(resource)
    annotations = {
        **({ORDER_ANNOTATION: STRICT_ORDER} if spec.get("queueingStrategy") == "StrictFIFO" else {}),
        **({CLOSED_ANNOTATION: "true"} if spec.get("stopPolicy") in ("Hold", "HoldAndDrain") else {}),
    }
    return replace(
        share,
        weight=fields.weight(mapping(spec, "fairSharing"), "weight"),
        annotations=annotations,
        deserved={key: amount for key, amount in nominal.items() if key not in left_out},
        guarantee={key: amount for key, amount in guarantee.items() if key not in left_out},
        limits={key: amount for key, amount in borrowed.items() if key not in unlimited},
    )


def _kai_share(share: _Share, spec: Mapping[str, Any], fields: _Fields) -> _Share:
    """Return the share with KAI's amounts. Source: QueueResource of KAI's pkg/apis/scheduling/v2; -1 means no limit."""
    deserved, limits, weights = Amounts(), Amounts(), list[Fraction]()
    for key, (resource, unit) in _KAI_UNITS.items():
        row = mapping(spec, "resources", key)
        for field_name, amounts in (("quota", deserved), ("limit", limits)):
            if row.get(field_name) != -1 and (amount := fields.amount(row, field_name, key)) is not None:
                amounts[resource] = amount * unit
        if row.get("overQuotaWeight") is not None:
            weights.append(fields.weight(row, "overQuotaWeight"))
    priority = int(fields.amount(spec, "priority") or 0)
    weight = (weights or [Fraction(1)])[0]
    return replace(share, weight=weight, priority=priority, deserved=deserved, limits=limits)


def _rows(spec: Any, *keys: str) -> Iterator[Mapping[str, Any]]:
    """The mappings at the end of nested lists."""
    if not keys:
        yield spec
        return
    rows = spec.get(keys[0])
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, Mapping):
            yield from _rows(row, *keys[1:])


def _sum(own: Amounts, more: Amounts) -> Amounts:
    return {key: own.get(key, Fraction()) + more.get(key, Fraction()) for key in {**own, **more}}


def _document(share: _Share, names: Mapping[tuple[str, str], str], weight: int, capability: Amounts) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if (parent := _parent_key(share)) is not None:
        spec["parent"] = names[parent]
    if weight != 1:
        spec["weight"] = weight
    if share.priority:
        spec["priority"] = share.priority
    if any(share.guarantee.values()):
        spec["guarantee"] = {"resource": _written(share.guarantee)}
    for key, amounts in (("deserved", share.deserved), ("capability", capability)):
        if amounts:
            spec[key] = _written(amounts)
    annotations = {"annotations": share.annotations} if share.annotations else {}
    metadata = {"name": names[share.kind, share.name], **annotations}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata, "spec": spec}


def _rounding_notes(document: Mapping[str, Any], share: _Share) -> Iterator[str]:
    for key, amounts in (("deserved", share.deserved), ("capability", share.capability)):
        for resource, amount in sorted(amounts.items()):
            if is_countable(resource) and amount.denominator != 1:
                yield (
                    f"{float(amount):g} {resource} of queue {document['metadata']['name']}: Volcano counts whole ones; "
                    f"{key} is {document['spec'][key][resource]}"
                )


def _written(amounts: Amounts) -> dict[str, Any]:
    """Return the amounts as Volcano counts them, rounded down, so that those of children stay within their parent's."""
    return {
        key: f"{int(amount * 1000)}m" if key in MILLI_RESOURCES and amount.denominator != 1 else int(amount)
        for key, amount in sorted(amounts.items())
    }


def _field_notes(queues: Iterable[Object], taken: Set[str]) -> Iterator[str]:
    without = _table()["fields"]
    for item in queues:
        for key in sorted((item.get("spec") or {}).keys() & without.keys()):
            yield f"{key} of {item['kind']} {name_of(item)}: {without[key]}"
        if name_of(item) in {ROOT_QUEUE, DEFAULT_QUEUE} - taken:
            yield f"{item['kind']} {name_of(item)}: Volcano has a queue of this name; the two are one now"


def _kind_notes(items: Iterable[Object]) -> Iterator[str]:
    named: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        named[run_kind_of(item)].append(name_of(item))
    for kind, instead in _table()["kinds"].items():
        if kind in named:
            yield f"{kind.partition('.')[0]} {', '.join(named[kind])}: {instead}"
