"""Queues of Kueue and KAI as Volcano's, and what of them has no equal.

A ClusterQueue or Cohort of Kueue deserves its nominal quotas, added up over flavors, a Cohort those of its members as
well; what is not lent is guaranteed, and what may be borrowed is the capability above that. A Queue of KAI deserves its
quota, has its limit as capability and its weight over the quota as weight.
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

from compiler.fields.quantity import QuantityError, parse_quantity
from compiler.kinds.queue import STRICT_ORDER
from compiler.kubernetes import CLOSED_ANNOTATION, DEFAULT_QUEUE, ORDER_ANNOTATION, ROOT_QUEUE, Object, name_of
from compiler.run_kinds import run_kind_of
from compiler.validation.judge import mapping

CLUSTER_QUEUE, COHORT, KAI_QUEUE = "ClusterQueue.kueue.x-k8s.io", "Cohort.kueue.x-k8s.io", "Queue.scheduling.run.ai"
PARENT_FIELDS = ("cohortName", "cohort", "parentName", "parent", "parentQueue")
"""In one version or another of these kinds."""
_KAI_UNITS = {
    "gpu": ("nvidia.com/gpu", Fraction(1)),
    "cpu": ("cpu", Fraction(1, 1000)),
    "memory": ("memory", Fraction(10**6)),
}
"""Resource of KAI -> ours, and its unit: GPUs, thousandths of a CPU, megabytes."""
_MAX_WEIGHT = 65535

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
    """One queue: its parent's name, "" for none. capability: of the resources that have one."""

    name: str
    parent: str = ""
    weight: Fraction = Fraction(1)
    priority: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)
    guarantee: Amounts = field(default_factory=dict)
    capability: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TranslatedQueues:
    """Queues of Volcano as documents, and a sentence for each thing that has no equal."""

    documents: list[dict[str, Any]]
    notes: list[str]


def translate_queues(objects: Iterable[Object]) -> TranslatedQueues:
    """The queues among objects of `queue_kinds`, by name. A Cohort with the name of a ClusterQueue gets another."""
    items = sorted(objects, key=lambda item: (run_kind_of(item), name_of(item)))
    queues = [item for item in items if run_kind_of(item) not in _table()["kinds"]]
    cluster_queues = {name_of(item) for item in queues if run_kind_of(item) == CLUSTER_QUEUE}
    shares = {share.name: share for share in (_share(item, cluster_queues) for item in queues)}
    missing = {share.parent for share in shares.values()} - shares.keys() - {""}
    shares |= {name: _Share(name) for name in missing}
    is_kai = {name_of(item) for item in queues if run_kind_of(item) == KAI_QUEUE}
    for member in [*shares.values()]:
        seen, name = {member.name}, member.parent
        while name and name not in seen and member.name not in is_kai:
            seen.add(name)
            shares[name] = _with_member(shares[name], member)
            name = shares[name].parent
    scale = lcm(*(share.weight.denominator for share in shares.values()))
    documents = [_document(share, scale) for _, share in sorted(shares.items())]
    return TranslatedQueues(documents, [*_field_notes(queues), *_kind_notes(items)])


def _share(item: Object, cluster_queues: Set[str]) -> _Share:
    spec, kind = item.get("spec") or {}, run_kind_of(item)
    parent = next((str(spec[key]) for key in PARENT_FIELDS if spec.get(key)), "")
    if kind == KAI_QUEUE:
        return _kai_share(name_of(item), parent, spec)
    parent = _cohort_name(parent, cluster_queues)
    name = name_of(item) if kind == CLUSTER_QUEUE else _cohort_name(name_of(item), cluster_queues)
    return _kueue_share(name, parent, spec)


def _cohort_name(name: str, cluster_queues: Set[str]) -> str:
    return f"{name}-cohort" if name in cluster_queues else name


def _kueue_share(name: str, parent: str, spec: Mapping[str, Any]) -> _Share:
    """Source: Kueue's concepts of a ClusterQueue: without a cohort there is nobody to borrow from."""
    nominal, guarantee, borrowed = defaultdict[str, Fraction](Fraction), Amounts(), defaultdict[str, Fraction](Fraction)
    unlimited = set[str]()
    for row in _rows(spec, "resourceGroups", "flavors", "resources"):
        resource, amount = str(row.get("name")), _amount(row.get("nominalQuota")) or Fraction()
        nominal[resource] += amount
        if (lent := _amount(row.get("lendingLimit"))) is not None:
            guarantee[resource] = guarantee.get(resource, Fraction()) + max(Fraction(), amount - lent)
        if (most := _amount(row.get("borrowingLimit"))) is not None:
            borrowed[resource] += most
        elif parent:
            unlimited.add(resource)
    capability = {key: amount + borrowed[key] for key, amount in nominal.items() if key not in unlimited}
    weight = _amount(mapping(spec, "fairSharing").get("weight"))
    annotations = {
        **({ORDER_ANNOTATION: STRICT_ORDER} if spec.get("queueingStrategy") == "StrictFIFO" else {}),
        **({CLOSED_ANNOTATION: "true"} if spec.get("stopPolicy") in ("Hold", "HoldAndDrain") else {}),
    }
    return _Share(
        name,
        parent,
        Fraction(1) if weight is None else weight,
        annotations=annotations,
        deserved=dict(nominal),
        guarantee=guarantee,
        capability=capability,
    )


def _kai_share(name: str, parent: str, spec: Mapping[str, Any]) -> _Share:
    """Source: QueueResource of KAI's pkg/apis/scheduling/v2; -1 is no limit."""
    deserved, capability, weights = Amounts(), Amounts(), []
    for key, (resource, unit) in _KAI_UNITS.items():
        row = mapping(spec, "resources", key)
        for field_name, amounts in (("quota", deserved), ("limit", capability)):
            amount = _amount(row.get(field_name))
            if amount is not None and amount >= 0:
                amounts[resource] = amount * unit
        if (weight := _amount(row.get("overQuotaWeight"))) is not None:
            weights.append(weight)
    weight = (weights or [Fraction(1)])[0]
    priority = int(_amount(spec.get("priority")) or 0)
    return _Share(name, parent, weight, priority, deserved=deserved, capability=capability)


def _rows(spec: Any, *keys: str) -> Iterator[Mapping[str, Any]]:
    """The mappings at the end of nested lists."""
    if not keys:
        yield spec
        return
    for row in spec.get(keys[0]) or ():
        if isinstance(row, Mapping):
            yield from _rows(row, *keys[1:])


def _amount(value: Any) -> Fraction | None:
    try:
        return None if value is None else parse_quantity(value)
    except QuantityError:
        return None


def _with_member(share: _Share, member: _Share) -> _Share:
    """What a member deserves and is guaranteed, its Cohort is too."""

    def total(own: Amounts, more: Amounts) -> Amounts:
        return {key: own.get(key, Fraction()) + more.get(key, Fraction()) for key in {**own, **more}}

    guarantee = total(share.guarantee, member.guarantee)
    return replace(share, deserved=total(share.deserved, member.deserved), guarantee=guarantee)


def _document(share: _Share, scale: int) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if share.parent:
        spec["parent"] = share.parent
    if (weight := min(_MAX_WEIGHT, max(1, int(share.weight * scale)))) != 1:
        spec["weight"] = weight
    if share.priority:
        spec["priority"] = share.priority
    if any(share.guarantee.values()):
        spec["guarantee"] = {"resource": _texts(share.guarantee)}
    for key, amounts in (("deserved", share.deserved), ("capability", share.capability)):
        if amounts:
            spec[key] = _texts(amounts)
    metadata = {"name": share.name, **({"annotations": share.annotations} if share.annotations else {})}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata, "spec": spec}


def _texts(amounts: Amounts) -> dict[str, Any]:
    """Whole numbers as they are, thousandths with their unit."""
    return {
        key: int(amount) if amount.denominator == 1 else f"{-(-amount * 1000 // 1)}m"
        for key, amount in sorted(amounts.items())
    }


def _field_notes(queues: Iterable[Object]) -> Iterator[str]:
    without = _table()["fields"]
    for item in queues:
        for key in sorted((item.get("spec") or {}).keys() & without.keys()):
            yield f"{key} of {item['kind']} {name_of(item)}: {without[key]}"
        if name_of(item) in (ROOT_QUEUE, DEFAULT_QUEUE):
            yield f"{item['kind']} {name_of(item)}: Volcano has a queue of this name; the two are one now"


def _kind_notes(items: Iterable[Object]) -> Iterator[str]:
    named: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        named[run_kind_of(item)].append(name_of(item))
    for kind, instead in _table()["kinds"].items():
        if kind in named:
            yield f"{kind.partition('.')[0]} {', '.join(named[kind])}: {instead}"
