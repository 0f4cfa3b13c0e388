"""NUMA cells and shared devices as the problem's divisions, cells and portions (docs/decisions/0008-cells.md).

A division is "numa" or the resource by which pods ask for parts of one device. Only those that some job asks for are in
the problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from pydantic import ValidationError

from compiler.cluster_state.state import Object, StateError
from compiler.kinds.common.pods import Pod, pod_spec
from compiler.lower.eligibility import Requirement, requirement
from compiler.lower.live import Live
from compiler.lower.numa import NOTHING, Cells, NumaCells
from compiler.lower.resources import vector
from compiler.lower.slot_holders import CellState, surely
from compiler.specs import Amounts, GangSpec, NodeSpec, NumaSpec, PodSpec, SchedulerSpec
from compiler.volcano.shared_devices import ALL_CORES, ASSIGNED, CORES, MEMORY, NUMBER, assigned
from solver.problem import Cell, Hold, Portion, Vector
from solver.semantics.device_slots import best_fit, shares

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

    @cached_property
    def numa_cells(self) -> NumaCells:
        return NumaCells(self.nodes, self.numa_resources)

    def numa(self, pod: PodSpec) -> Cells:
        """How the NUMA cells of a pod are planned, if at all."""
        return self.numa_cells.of(pod) if self.aware else NOTHING

    def unplanned(self, gangs: Sequence[GangSpec]) -> Mapping[tuple[int, int], Cells]:
        """(gang, role) whose NUMA cells are not planned on some nodes."""
        found = {
            (j, t): self.numa(role.pod)
            for j, gang in enumerate(gangs)
            for t, role in enumerate(gang.roles)
            if role.pod.topology_policy
        }
        return {spot: cells for spot, cells in found.items() if cells.unplanned}

    def narrowed(self, gang: GangSpec) -> bool:
        """Whether the portions ask for more than the kubelet does: nodes are closed that it might let the gang use; or
        a pod of whole cells has room kept for it in each of them that it needs in one, and another role could do with
        that."""
        found = [self.numa(role.pod) for role in gang.roles if role.pod.topology_policy]
        several = [cells.way for cells in found if cells.way is not None]
        return any(cells.layouts is not None for cells in found) or (
            len(several) > 1 and any(way.number > 1 for way in several)
        )

    def requirement(self, pod: PodSpec) -> Requirement:
        """What decides which nodes are open to a pod."""
        return requirement(pod, self.numa(pod).layouts)

    def wishes(self, pod: PodSpec, at: NodeSpec | None = None) -> Iterator[Wish]:
        """From which divisions a pod takes what: at most one wish for each. at: the node that it runs on."""
        way = self.numa_cells.of(pod).way if at is None else self.numa_cells.on(pod, at)
        if self.aware and way is not None:
            yield NUMA, way.number, dict(way.share)
        for resource, each in sorted(self.each.items()):
            if resource == MEMORY:
                yield from self._vgpus(pod, each)
                continue
            amount, whole = pod.requests.get(resource, 0), pod.requests.get(self.whole.get(resource, ""), 0)
            if whole or amount > each:
                yield resource, whole or -(-amount // each), {resource: each}
            elif amount:
                yield resource, 1, {resource: amount}

    @staticmethod
    def _vgpus(pod: PodSpec, each: int) -> Iterator[Wish]:
        """All containers together, each with the most that one of them asks for of a device: several that ask are rare,
        and then stand apart."""
        if not pod.vgpus:
            return
        memory = max(asked.memory or each * asked.percentage // 100 for asked in pod.vgpus)
        cores = max(asked.cores for asked in pod.vgpus)
        # A pod that asks for no cores may not join a device that another one has for itself, nor the other way round.
        yield (
            MEMORY,
            sum(asked.number for asked in pod.vgpus),
            {MEMORY: memory, CORES: max(1, min(cores, ALL_CORES)), NUMBER: 1},
        )

    def portions(self, pod: PodSpec, names: Sequence[str], at: NodeSpec | None = None) -> tuple[Portion, ...]:
        """Of the divisions in the problem. at: the node that the pod runs on."""
        if not self.names:
            return ()
        wishes = (wish for wish in self.wishes(pod, at) if wish[0] in self.names)
        return tuple(
            Portion(self.names.index(division), number, vector(share, names)) for division, number, share in wishes
        )

    def cells(
        self, node: NodeSpec, tenants: Sequence[Object], names: Sequence[str]
    ) -> tuple[tuple[Cell, ...], tuple[Holder, ...]]:
        """The node's cells, less what the pods there hold: as their annotations say, or as is sure (`holders.surely`),
        else by best fit, the largest shares first. What a Numatopology says is left of a cell is less them already, but
        for the pods that it has not heard of.

        And which pods surely hold which of the cells. Where more is held of a cell than it has, where anything of a
        division had to be guessed, and where a Numatopology is late, nothing is sure.
        """
        offers = [(d, *offer) for d, division in enumerate(self.names) for offer in self._offers(node, division, names)]
        free = [np.array(left, dtype=np.int64) for _, _, _, left in offers]
        told = frozenset(
            names.index(r)
            for cell in (node.numa.free if node.numa and node.numa.free else ())
            for r in cell
            if r in names
        )
        news = {id(tenant) for tenant in unheard(node, tenants)} if NUMA in self.names else set()
        known: list[Holder] = []
        unknown: list[tuple[Object, Portion]] = []
        for tenant in tenants:
            for portion in self._held(node, tenant, names, new=id(tenant) in news):
                said = self._said(tenant, portion, [(d, name) for d, name, _, _ in offers], names)
                known += [Holder(tenant, c, portion.division, amount) for c, amount in said or ()]
                unknown += [(tenant, portion)] if said is None else []
        for holder in known:
            free[holder.cell] -= np.array(holder.share, dtype=np.int64)
        for d, division in enumerate(self.names):
            here = {c: free[c] for c, offer in enumerate(offers) if offer[0] == d}
            gone = told if division == NUMA else frozenset[int]()
            late = division == NUMA and idle_beyond(node, tenants) != 0
            states = {} if late else {c: CellState(offers[c][2], _left(left), gone) for c, left in here.items()}
            mine = [
                Tenancy(tenant, portion, frozenset() if id(tenant) in news else gone)
                for tenant, portion in unknown
                if portion.division == d
            ]
            sure = _taken_off(mine, states, here)
            known = [holder for holder in known if holder.division != d] if sure is None or late else [*known, *sure]
        wholes = [whole for _, _, whole, _ in offers]
        cells = tuple(Cell(d, whole, _left(left)) for (d, _, whole, _), left in zip(offers, free, strict=True))
        return cells, _within(wholes, free, known)

    def _offers(self, node: NodeSpec, division: str, names: Sequence[str]) -> Iterator[tuple[str, Vector, Vector]]:
        """(id, what the empty cell has, what is left of it as far as the node itself says) for each cell of a division."""
        if division == NUMA:
            numa = node.numa or NumaSpec("none", False, ())
            undivided = {r: node.allocatable.get(r, 0) for r in self.numa_resources}
            for c, cell in enumerate(numa.cells):
                left = (
                    {}
                    if numa.free is None
                    else {r: min(amount, cell.get(r, amount)) for r, amount in numa.free[c].items()}
                )
                yield f"numa-{c}", vector({**undivided, **cell}, names), vector({**undivided, **cell, **left}, names)
        for shared in node.shared:
            for name, offer in shared.devices if shared.resource == division else ():
                yield name, vector(offer, names), vector(offer, names)

    def behind(self, node: NodeSpec, tenants: Sequence[Object]) -> bool:
        """Whether what the cluster says of the node's cells is older than the pods there: the resource exporter looks
        at a node again and again, and Volcano notes a pod's devices when it binds it."""
        late = NUMA in self.names and idle_beyond(node, tenants) != 0
        return late or (
            MEMORY in self.names and any(_spec(tenant).vgpus and not _assigned(tenant) for tenant in tenants)
        )

    def _held(self, node: NodeSpec, tenant: Object, names: Sequence[str], *, new: bool) -> Iterator[Portion]:
        """What the pod has of cells. new: its CPUs are some cell's, and the node has not said so yet."""
        spec = _spec(tenant)
        portions = self.portions(spec, names, node)
        if new and all(self.names[portion.division] != NUMA for portion in portions):
            yield Portion(self.names.index(NUMA), 1, vector({"cpu": spec.requests["cpu"]}, names))
        yield from portions

    def _said(
        self, tenant: Object, portion: Portion, offers: Sequence[tuple[int, str]], names: Sequence[str]
    ) -> list[tuple[int, Vector]] | None:
        """(cell, what the pod holds of it) as its annotations say; None where they say nothing of this division."""
        held = _assigned(tenant)
        if self.names[portion.division] != MEMORY or not held:
            return None
        return [
            (c, vector({**held[name], CORES: max(1, held[name][CORES])}, names))
            for c, (division, name) in enumerate(offers)
            if division == portion.division and name in held
        ]


@dataclass(frozen=True)
class Tenancy:
    """A pod and its portion of one division, of which nobody says in which cells it is. told: resources whose free
    amounts are less it already."""

    pod: Object
    portion: Portion
    told: frozenset[int]

    @property
    def beside(self) -> Vector:
        """Of each cell, what is still to be taken off."""
        return tuple(0 if r in self.told else amount for r, amount in enumerate(self.portion.share))


def _taken_off(
    unknown: Sequence[Tenancy], states: Mapping[int, CellState], free: Mapping[int, np.ndarray]
) -> list[Holder] | None:
    """Takes off what these pods hold of one division's cells. Who surely holds what; None where a guess had to be made."""
    line = sorted(unknown, key=lambda one: (one.portion.share, one.portion.number), reverse=True)
    sure = surely([one.portion for one in line], states)
    found, guessed = list[Holder](), False
    for k, cells in sorted(sure.items()):
        for c in cells:
            free[c] -= np.array(line[k].beside, dtype=np.int64)
            found.append(Holder(line[k].pod, c, line[k].portion.division, line[k].portion.share))
    for k, one in enumerate(line):
        if k not in sure and any(one.beside):
            _take(list(free.values()), replace(one.portion, share=one.beside))
            guessed = True
    return None if guessed else found


def _left(cell: np.ndarray) -> Vector:
    return tuple(max(0, int(x)) for x in cell)


def _within(wholes: Sequence[Vector], free: Sequence[np.ndarray], known: Sequence[Holder]) -> tuple[Holder, ...]:
    """Those who hold cells of which no more is held than there is."""
    total = [np.maximum(left, 0) for left in free]
    for holder in known:
        total[holder.cell] = total[holder.cell] + np.array(holder.share, dtype=np.int64)
    sound = [
        bool((left >= 0).all() and (sum_ <= whole).all()) for left, sum_, whole in zip(free, total, wholes, strict=True)
    ]
    return tuple(holder for holder in known if sound[holder.cell])


def _take(cells: Sequence[np.ndarray], portion: Portion) -> None:
    """One pod's portion, from the fullest cells that hold it; where none do, from the emptiest: they hold more than
    they have."""
    together = np.maximum(np.array(cells), 0)
    counts = best_fit(together, portion, 1) if cells else ()
    if counts is None:
        order = sorted(
            range(len(cells)),
            key=lambda c: (-int(shares(together, portion.share)[c]), [-x for x in together[c].tolist()], c),
        )
        counts = tuple(int(c in order[: portion.number]) for c in range(len(cells)))
    for cell, number in zip(cells, counts, strict=True):
        cell -= np.array(portion.share, dtype=np.int64) * number


def _assigned(tenant: Object) -> dict[str, Amounts]:
    """Device -> what the pod holds of it, as Volcano noted."""
    return dict(assigned(str((tenant["metadata"].get("annotations") or {}).get(ASSIGNED, ""))))


def idle_beyond(node: NodeSpec, tenants: Sequence[Object]) -> int:
    """Millicores that the node's Numatopology says are idle beyond what its pods leave; below 0 where CPUs are still
    said to be taken that no pod has any more. 0 where nobody speaks of idle CPUs."""
    if node.numa is None or node.numa.free is None or not node.numa.static:
        return 0
    idle, every = (sum(cell.get("cpu", 0) for cell in cells) for cells in (node.numa.free, node.numa.cells))
    return idle - max(0, every - sum(_exclusive(tenant) for tenant in tenants))


def unheard(node: NodeSpec, tenants: Sequence[Object]) -> list[Object]:
    """The youngest pods with CPUs of their own, as many as it takes for what is idle beyond what pods leave; those not
    yet bound before all."""
    beyond, found = idle_beyond(node, tenants), []

    def age(tenant: Object) -> tuple[bool, str, str]:
        started = (tenant.get("status") or {}).get("startTime")
        return started is None, started or "", tenant["metadata"]["name"]

    for tenant in sorted(tenants, key=age, reverse=True):
        if beyond <= 0:
            break
        if own := _exclusive(tenant):
            found.append(tenant)
            beyond -= own
    return found


def _exclusive(tenant: Object) -> int:
    """Millicores that the kubelet's static CPU manager gives the pod for itself: of a Guaranteed pod, what its
    containers ask for in whole CPUs."""
    if not _spec(tenant).guaranteed:
        return 0
    asked = (container.effective["cpu"] for container in _pod(tenant).containers)
    return sum(int(cpu) * 1000 for cpu in asked if cpu.denominator == 1)


def _pod(tenant: Object) -> Pod:
    return Pod.model_validate(
        {key: tenant["spec"].get(key) for key in ("containers", "initContainers", "overhead", "resources")}
    )


def _spec(tenant: Object) -> PodSpec:
    """A live pod as a specification, with its task's policy."""
    try:
        spec = pod_spec(_pod(tenant))
    except ValidationError as error:
        metadata = tenant["metadata"]
        raise StateError(
            f"Pod {metadata.get('namespace')}/{metadata['name']} of the state: {error.errors()[0]['msg']}"
        ) from error
    said = (tenant["metadata"].get("annotations") or {}).get(POLICY, "")
    return PodSpec(spec.requests, guaranteed=spec.guaranteed, vgpus=spec.vgpus, topology_policy=str(said))


def held_by(
    holders: Mapping[int, Sequence[Holder]],
    live: Live,
    gangs: Sequence[GangSpec],
    parted: Divisions,
    names: Sequence[str],
) -> dict[int, tuple[Hold, ...]]:
    """Gang -> which cells its running pods have, for those that surely have at least what their role asks for.

    holders: node -> who has which of its cells.
    """
    asked: dict[tuple[int, int], Mapping[int, Portion]] = {}
    found: dict[int, Counter[tuple[int, int, int]]] = {}
    for n, node in sorted(holders.items()):
        cells = Counter((id(holder.pod), holder.division) for holder in node)
        for holder in node:
            metadata = holder.pod["metadata"]
            member = live.members.get((metadata.get("namespace") or "default", metadata["name"]))
            if member is None:
                continue
            j, t = member
            if member not in asked:
                asked[member] = {portion.division: portion for portion in parted.portions(gangs[j].roles[t].pod, names)}
            portion = asked[member].get(holder.division)
            if portion is None or cells[id(holder.pod), holder.division] != portion.number:
                continue
            if all(has >= share for has, share in zip(holder.share, portion.share, strict=True)):
                found.setdefault(j, Counter())[t, n, holder.cell] += 1
    return {j: tuple(Hold(*at, pods) for at, pods in sorted(counts.items())) for j, counts in found.items()}


def divisions(live: Live, pods: Iterable[PodSpec], scheduler: SchedulerSpec | None) -> Divisions:
    """Of jobs with these pods, where nodes are divided at all."""
    if not any(node.numa or node.shared for node in live.nodes):
        return Divisions((), (), numa_aware(scheduler))
    distinct = {(tuple(sorted(pod.requests.items())), pod.vgpus, requirement(pod)): pod for pod in pods}
    return Divisions(live.nodes, tuple(distinct.values()), numa_aware(scheduler))
