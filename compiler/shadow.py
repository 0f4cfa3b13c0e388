"""Gangplan's decisions on the jobs of a cluster that another scheduler places: plans that nobody applies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.observed import observe_state
from compiler.importing.other_queues import queue_kinds
from compiler.importing.repository import has_unplanned_owner, import_objects
from compiler.kubernetes import CLUSTER_LABEL, Object, aborted_phase, labels_of, name_of, namespace_of
from compiler.pipeline import compile_specs, lowered_problem
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.run_kinds import run_kind_of
from compiler.specs.cluster_spec import Specs
from compiler.views.report.page import report_page
from solver.mip.executors import LOCAL_EXECUTOR, Mapper
from solver.options import Options
from solver.plan import Plan
from solver.planner import solve
from solver.problem import Gang, Placement, Problem
from solver.verify import verify

Places = Mapping[int, Sequence[Placement]]
"""Gang -> where its pods are."""
Devices = Mapping[str, int]
"""Resource -> how many."""


@dataclass(frozen=True, slots=True)
class Use:
    """Usage of gangs. running, waiting: gangs. domains: leaf hypernodes of a gang of several pods, in the mean; None
    without such gangs. owed: devices that queues deserve, request and do not hold."""

    running: int
    waiting: int
    devices: Devices
    domains: float | None
    owed: Devices


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a cluster. waiting: names of the gangs that wait. startable: of those the ones that would start now
    in free room, with nobody evicted. from_empty: what the same jobs would hold, had gangplan placed them all.
    left_out: errors of objects, which are in no plan."""

    now: Use
    waiting: frozenset[str]
    startable: Mapping[str, Devices]
    from_empty: Use
    left_out: tuple[str, ...] = ()

    def startable_since(self, before: Look | None) -> Mapping[str, Devices]:
        """Return the gangs that were startable at the look before already: the scheduler had the room and the time."""
        former = {} if before is None else before.startable
        return {
            name: {resource: min(number, former[name].get(resource, 0)) for resource, number in devices.items()}
            for name, devices in self.startable.items()
            if name in former
        }

    def gained(self) -> Devices:
        """Return how many more devices gangs would hold from empty; fewer where it is below 0."""
        names = {**self.now.devices, **self.from_empty.devices}
        return {name: self.from_empty.devices.get(name, 0) - self.now.devices.get(name, 0) for name in names}


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A cluster as it was read: its objects as a repository, and the specs of that."""

    tree: Repository
    specs: Specs
    state: ClusterState

    @classmethod
    def of(cls, objects: Sequence[Object], clock: int) -> Shadowed:
        """Read a cluster. clock: seconds since the epoch. Raises StateError for an invalid state."""
        state = ClusterState.from_objects(objects, clock=clock)
        files = import_objects(_as_written(objects), "shadow").files
        tree = Repository.of_files({path: text.encode() for path, text in files.items()})
        return cls(tree, read_specs(tree), state)


def look_at(cluster: Shadowed, options: Options, mapper: Mapper = LOCAL_EXECUTOR) -> Look:
    """Plan what a cluster holds, as it is and from empty; pods of other kinds stay where they are. Raises RuntimeError
    for a plan that the verifier refuses."""
    tree, specs, state = cluster.tree, cluster.specs, cluster.state
    problem = lowered_problem(tree, specs, state)
    calm = replace(problem, preempt_enabled=False, reclaim_enabled=False)  # a certain gain needs no eviction
    plan = _verified_plan(calm, options, mapper)
    running = {j: gang.running for j, gang in enumerate(problem.gangs) if gang.running}
    started = {each.gang: each.placements for each in plan.decisions if each.action == "start"}
    startable = {j: places for j, places in started.items() if j not in running}
    empty = lowered_problem(tree, specs, _without_pods(specs, state))
    fresh = _verified_plan(empty, options, mapper)
    return Look(
        _use(problem, running, [use.allocated for use in plan.queues], plan),
        frozenset(gang.name for j, gang in enumerate(problem.gangs) if j not in running),
        {problem.gangs[j].name: _devices(problem, {j: places}) for j, places in sorted(startable.items())},
        _use(
            empty,
            {each.gang: each.placements for each in fresh.decisions if each.placements},
            [tuple(map(sum, zip(use.allocated, use.admitted, strict=True))) for use in fresh.queues],
            fresh,
        ),
        tuple(f"{each.code}: {each.message}" for each in specs.diagnostics if each.severity == "error"),
    )


def page_of(cluster: Shadowed, mapper: Mapper = LOCAL_EXECUTOR) -> str | None:
    """Return the report page of the cluster as it is and of what would start; None where nothing can be planned."""
    outcome = compile_specs(cluster.tree, cluster.specs, cluster.state, mapper=mapper)
    return report_page(outcome) if outcome.ok else None


def _as_written(objects: Iterable[Object]) -> Iterator[Object]:
    """Yield the objects as if people had written them all. A job created by an unplanned object counts itself, and
    gangplan's own jobs are not foreign. Queues of other systems, which the scheduler does not know, and suspended Jobs
    are left out."""
    for item in objects:
        if run_kind_of(item) in queue_kinds() or aborted_phase(item):
            continue
        metadata = dict(item["metadata"])
        if has_unplanned_owner(item):
            del metadata["ownerReferences"]
        if CLUSTER_LABEL in labels_of(item):
            metadata["labels"] = {key: value for key, value in labels_of(item).items() if key != CLUSTER_LABEL}
        yield {**item, "metadata": metadata}


def _verified_plan(problem: Problem, options: Options, mapper: Mapper) -> Plan:
    """Return the plan, without the reasons why gangs wait. Raises RuntimeError where the verifier refuses it."""
    plan = solve(problem, options, mapper, reasons=False)
    if violations := [each for each in verify(problem, plan) if each.rule != "reasons"]:
        raise RuntimeError(f"the verifier refuses the plan: {violations[0].rule}: {violations[0].message}")
    return plan


def _without_pods(specs: Specs, state: ClusterState) -> ClusterState:
    """Return the state without the pods of the gangs."""
    own = observe_state(specs, state).gang_role_by_pod
    return replace(state, pods=tuple(pod for pod in state.pods if (namespace_of(pod), name_of(pod)) not in own))


def _use(problem: Problem, places: Places, held: Sequence[Sequence[int]], plan: Plan) -> Use:
    leaves = [
        len({problem.nodes[place.node].leaf for place in of_gang})
        for of_gang in places.values()
        if sum(place.pods for place in of_gang) > 1
    ]
    waiting = [gang for j, gang in enumerate(problem.gangs) if j not in places]
    domains = float(Fraction(sum(leaves), len(leaves))) if leaves else None
    return Use(len(places), len(waiting), _devices(problem, places), domains, _owed(problem, waiting, held, plan))


def _devices(problem: Problem, places: Places) -> Devices:
    found = dict.fromkeys((problem.resources[r] for r in problem.device_resources), 0)
    for j, of_gang in places.items():
        for place in of_gang:
            request = problem.gangs[j].roles[place.role].request
            for r in problem.device_resources:
                found[problem.resources[r]] += place.pods * request[r]
    return found


def _owed(problem: Problem, waiting: Iterable[Gang], held: Sequence[Sequence[int]], plan: Plan) -> Devices:
    """Sum over queues with waiting gangs of max(0, min(deserved, held + asked) - held), for each device."""
    asked: Counter[tuple[int, int]] = Counter()
    for gang in waiting:
        for role in gang.roles:
            for r in problem.device_resources:
                asked[gang.queue, r] += role.replicas * role.request[r]
    found = dict.fromkeys((problem.resources[r] for r in problem.device_resources), 0)
    for (q, r), amount in asked.items():
        deserved = plan.queues[q].deserved[r]
        if deserved is not None:
            found[problem.resources[r]] += max(0, min(deserved, held[q][r] + amount) - held[q][r])
    return found
