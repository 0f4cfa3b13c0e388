"""NUMA cells and shared devices as the problem's divisions, cells and portions (docs/decisions/0008-cells.md).

A division is "numa" or the resource by which pods ask for parts of one device. Only those that some job asks for are in the problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from pydantic import ValidationError

from compiler.devices import ALL_CORES, ASSIGNED, CORES, MEMORY, NUMBER, assigned
from compiler.lower.holders import CellState, surely
from compiler.lower.live import Live
from compiler.lower.resources import vector
from compiler.pods import Pod, pod_spec
from compiler.specs import Amounts, GangSpec, NodeSpec, NumaSpec, PodSpec, SchedulerSpec
from compiler.state import Object, StateError
from solver.cells import best_fit, shares
from solver.problem import Cell, Hold, Portion, Vector

NUMA = "numa"
POLICY = "volcano.sh/numa-topology-policy"
"""On a pod: the topologyPolicy of its task."""

Wish = tuple[str, int, Amounts]
"""Division, cells, and the share of each."""


@dataclass(frozen=True)
class Holder:
    """A running pod, one of its node's cells (an index), that cell's division, and what the pod has of it."""

    pod: Object
    cell: int
    division: int
    share: Vector


def numa_aware(scheduler: SchedulerSpec | None) -> bool:
    """Whether Volcano's plugin numa-aware decides where pods with a topologyPolicy may go."""
    plugins = (plugin for tier in (scheduler.tiers if scheduler else ()) for plugin in tier)
    return any(plugin.name == "numa-aware" and plugin.flags.get("enablePredicate", True) for plugin in plugins)


def policy(pod: PodSpec) -> str:
    """The topologyPolicy that binds the pod: only Guaranteed pods are bound by any."""
    return pod.topology_policy if pod.guaranteed and pod.topology_policy != "none" else ""


@dataclass(frozen=True)
class Divisions:
    """What nodes are divided into, and what pods take of it. pods: of all jobs. aware: whether NUMA counts at all."""

    nodes: Sequence[NodeSpec]
    pods: Sequence[PodSpec]
    aware: bool

    @cached_property
    def numa_resources(self) -> tuple[str, ...]:
        """What NUMA cells divide, on any node."""
        return tuple(sorted({name for node in self.nodes if node.numa for cell in node.numa.cells for name in cell}))

    @cached_property
    def each(self) -> Mapping[str, int]:
        """Resource -> what one device offers of it, the largest where devices differ."""
        found: dict[str, int] = {}
        for node in self.nodes:
            for shared in node.shared:
                for _, offer in shared.devices:
                    found[shared.resource] = max(found.get(shared.resource, 0), offer[shared.resource])
        return found

    @cached_property
    def whole(self) -> Mapping[str, str]:
        """Resource -> the resource by which whole devices are asked for."""
        return {shared.resource: shared.whole for node in self.nodes for shared in node.shared if shared.whole}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The divisions that some pod takes from."""
        return tuple(sorted({division for pod in self.pods for division, _, _ in self.wishes(pod)}))

    @cached_property
    def resources(self) -> frozenset[str]:
        """What pods take from cells, some of which nobody may ask for by name."""
        return frozenset(name for pod in self.pods for _, _, share in self.wishes(pod) for name in share)

    def wishes(self, pod: PodSpec) -> Iterator[Wish]:
        """From which divisions a pod takes what: at most one wish for each."""
        if self.aware and self._one_cell(pod) and (share := {r: pod.requests[r] for r in self.numa_resources if pod.requests.get(r)}):
            yield NUMA, 1, share
        for resource, each in sorted(self.each.items()):
            if resource == MEMORY:
                yield from self._vgpus(pod, each)
                continue
            amount, whole = pod.requests.get(resource, 0), pod.requests.get(self.whole.get(resource, ""), 0)
            if whole or amount > each:
                yield resource, whole or -(-amount // each), {resource: each}
            elif amount:
                yield resource, 1, {resource: amount}

    def _one_cell(self, pod: PodSpec) -> bool:
        """single-numa-node; and restricted where the kubelet then admits the pod to one cell only: one empty cell of every node with that policy
        is enough for it."""
        wanted = policy(pod)
        if wanted != "restricted":
            return wanted == "single-numa-node"
        return all(any(all(dict(cell).get(r, a) >= a for r, a in pod.requests.items()) for cell in cells) for cells in self._restricted)

    @cached_property
    def _restricted(self) -> frozenset[tuple[tuple[tuple[str, int], ...], ...]]:
        """The different sets of NUMA cells of nodes whose policy is restricted."""
        numas = (node.numa for node in self.nodes if node.numa is not None and node.numa.policy == "restricted")
        return frozenset(tuple(tuple(sorted(cell.items())) for cell in numa.cells) for numa in numas)

    @staticmethod
    def _vgpus(pod: PodSpec, each: int) -> Iterator[Wish]:
        """All containers together, each with the most that one of them asks for of a device: several that ask are rare, and then stand apart."""
        if not pod.vgpus:
            return
        memory = max(asked.memory or each * asked.percentage // 100 for asked in pod.vgpus)
        cores = max(asked.cores for asked in pod.vgpus)
        # A pod that asks for no cores may not join a device that another one has for itself, nor the other way round.
        yield MEMORY, sum(asked.number for asked in pod.vgpus), {MEMORY: memory, CORES: max(1, min(cores, ALL_CORES)), NUMBER: 1}

    def portions(self, pod: PodSpec, names: Sequence[str]) -> tuple[Portion, ...]:
        if not self.names:
            return ()
        return tuple(Portion(self.names.index(division), number, vector(share, names)) for division, number, share in self.wishes(pod))

    def cells(self, node: NodeSpec, tenants: Sequence[Object], names: Sequence[str]) -> tuple[tuple[Cell, ...], tuple[Holder, ...]]:
        """The node's cells, less what the pods there hold: as their annotations say, or as is sure (`holders.surely`), else by best fit, the
        largest shares first. What a Numatopology says is left of a cell is less them already. And which pods surely hold which of the cells; of
        cells of which more is held than they have nobody can say what comes back."""
        offers = [(d, *offer) for d, division in enumerate(self.names) for offer in self._offers(node, division, names)]
        free = [np.array(left, dtype=np.int64) for _, _, _, left in offers]
        told = frozenset(names.index(r) for cell in (node.numa.free if node.numa and node.numa.free else ()) for r in cell if r in names)
        known: list[Holder] = []
        unknown: list[tuple[Object, Portion]] = []
        for tenant in tenants:
            for portion in self.portions(_spec(tenant), names):
                said = self._said(tenant, portion, [(d, name) for d, name, _, _ in offers], names)
                known += [Holder(tenant, c, portion.division, amount) for c, amount in said or ()]
                unknown += [(tenant, portion)] if said is None else []
        for holder in known:
            free[holder.cell] -= np.array(holder.share, dtype=np.int64)
        for d, division in enumerate(self.names):
            here = {c: free[c] for c, offer in enumerate(offers) if offer[0] == d}
            gone = told if division == NUMA else frozenset[int]()
            states = {c: CellState(offers[c][2], _left(left), gone) for c, left in here.items()}
            sure = self._sorted_in([pair for pair in unknown if pair[1].division == d], states, here)
            known = [holder for holder in known if holder.division != d] if sure is None else [*known, *sure]
        wholes = [whole for _, _, whole, _ in offers]
        cells = tuple(Cell(d, whole, _left(left)) for (d, _, whole, _), left in zip(offers, free, strict=True))
        return cells, _within(wholes, free, known)

    @staticmethod
    def _sorted_in(unknown: Sequence[tuple[Object, Portion]], states: Mapping[int, CellState], free: Mapping[int, np.ndarray]) -> list[Holder] | None:
        """Takes off what these pods hold of one division's cells. Who surely holds what; None where a guess had to be made, on which no eviction is
        to rest."""
        line = sorted(unknown, key=lambda pair: (pair[1].share, pair[1].number), reverse=True)
        sure, told = surely([portion for _, portion in line], states), next((state.told for state in states.values()), frozenset[int]())
        found: list[Holder] = []
        guessed = False
        beside = [tuple(0 if r in told else amount for r, amount in enumerate(portion.share)) for _, portion in line]
        for k, cells in sorted(sure.items()):
            for c in cells:
                free[c] -= np.array(beside[k], dtype=np.int64)
                found.append(Holder(line[k][0], c, line[k][1].division, line[k][1].share))
        for k, (_, portion) in enumerate(line):
            if k not in sure and any(beside[k]):
                _take(list(free.values()), replace(portion, share=beside[k]))
                guessed = True
        return None if guessed else found

    def _offers(self, node: NodeSpec, division: str, names: Sequence[str]) -> Iterator[tuple[str, Vector, Vector]]:
        """(id, what the empty cell has, what is left of it as far as the node itself says) for each cell of a division."""
        if division == NUMA:
            numa = node.numa or NumaSpec("none", False, ())
            undivided = {r: node.allocatable.get(r, 0) for r in self.numa_resources}
            for c, cell in enumerate(numa.cells):
                left = {} if numa.free is None else {r: min(amount, cell.get(r, amount)) for r, amount in numa.free[c].items()}
                yield f"numa-{c}", vector({**undivided, **cell}, names), vector({**undivided, **cell, **left}, names)
        for shared in node.shared:
            for name, offer in shared.devices if shared.resource == division else ():
                yield name, vector(offer, names), vector(offer, names)

    def _said(self, tenant: Object, portion: Portion, offers: Sequence[tuple[int, str]], names: Sequence[str]) -> list[tuple[int, Vector]] | None:
        """(cell, what the pod holds of it) as its annotations say; None where they say nothing of this division."""
        annotations = tenant["metadata"].get("annotations") or {}
        held = dict(assigned(str(annotations.get(ASSIGNED, ""))))
        if self.names[portion.division] != MEMORY or not held:
            return None
        return [
            (c, vector({**held[name], CORES: max(1, held[name][CORES])}, names))
            for c, (division, name) in enumerate(offers)
            if division == portion.division and name in held
        ]


def _left(cell: np.ndarray) -> Vector:
    return tuple(max(0, int(x)) for x in cell)


def _within(wholes: Sequence[Vector], free: Sequence[np.ndarray], known: Sequence[Holder]) -> tuple[Holder, ...]:
    """Those who hold cells of which no more is held than there is."""
    total = [np.maximum(left, 0) for left in free]
    for holder in known:
        total[holder.cell] = total[holder.cell] + np.array(holder.share, dtype=np.int64)
    sound = [bool((left >= 0).all() and (sum_ <= whole).all()) for left, sum_, whole in zip(free, total, wholes, strict=True)]
    return tuple(holder for holder in known if sound[holder.cell])


def _take(cells: Sequence[np.ndarray], portion: Portion) -> None:
    """One pod's portion, from the fullest cells that hold it; where none do, from the emptiest: they hold more than they have."""
    together = np.maximum(np.array(cells), 0)
    counts = best_fit(together, portion, 1) if cells else ()
    if counts is None:
        order = sorted(range(len(cells)), key=lambda c: (-int(shares(together, portion.share)[c]), [-x for x in together[c].tolist()], c))
        counts = tuple(int(c in order[: portion.number]) for c in range(len(cells)))
    for cell, number in zip(cells, counts, strict=True):
        cell -= np.array(portion.share, dtype=np.int64) * number


def _spec(tenant: Object) -> PodSpec:
    """A live pod as a specification, with its task's policy."""
    try:
        spec = pod_spec(Pod.model_validate({key: tenant["spec"].get(key) for key in ("containers", "initContainers", "overhead", "resources")}))
    except ValidationError as error:
        metadata = tenant["metadata"]
        raise StateError(f"Pod {metadata.get('namespace')}/{metadata['name']} of the state: {error.errors()[0]['msg']}") from error
    said = (tenant["metadata"].get("annotations") or {}).get(POLICY, "")
    return PodSpec(spec.requests, guaranteed=spec.guaranteed, vgpus=spec.vgpus, topology_policy=str(said))


def held_by(
    holders: Mapping[int, Sequence[Holder]], live: Live, gangs: Sequence[GangSpec], parted: Divisions, names: Sequence[str]
) -> dict[int, tuple[Hold, ...]]:
    """Gang -> which cells its running pods have, for those that surely have at least what their role asks for.

    holders: node -> who has which of its cells.
    """
    shares: dict[tuple[int, int], Mapping[int, Vector]] = {}
    found: dict[int, Counter[tuple[int, int, int]]] = {}
    for n, node in sorted(holders.items()):
        for holder in node:
            metadata = holder.pod["metadata"]
            member = live.members.get((metadata.get("namespace") or "default", metadata["name"]))
            if member is None:
                continue
            j, t = member
            if member not in shares:
                shares[member] = {portion.division: portion.share for portion in parted.portions(gangs[j].roles[t].pod, names)}
            asked = shares[member].get(holder.division)
            if asked is not None and all(has >= share for has, share in zip(holder.share, asked, strict=True)):
                found.setdefault(j, Counter())[t, n, holder.cell] += 1
    return {j: tuple(Hold(*at, pods) for at, pods in sorted(counts.items())) for j, counts in found.items()}


def divisions(live: Live, pods: Iterable[PodSpec], scheduler: SchedulerSpec | None) -> Divisions:
    """Of jobs with these pods, where nodes are divided at all."""
    if not any(node.numa or node.shared for node in live.nodes):
        return Divisions((), (), numa_aware(scheduler))
    distinct = {(tuple(sorted(pod.requests.items())), pod.vgpus, policy(pod)): pod for pod in pods}
    return Divisions(live.nodes, tuple(distinct.values()), numa_aware(scheduler))
