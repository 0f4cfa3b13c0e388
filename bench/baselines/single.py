"""Single pods one after another, oldest first: best fit, and fragmentation gradient descent, as `gangplan simulate`
replays them."""

from __future__ import annotations

from bench.baselines.site import Placements
from solver.problem import Placement, Problem, Role
from solver.simulation.gradient import FragmentationGradient
from solver.simulation.policies import FirstThatFits, PlaceRule, best_fit
from solver.simulation.replay import Simulation
from solver.simulation.workload import SECOND, Job, Workload


def place_by_best_fit(problem: Problem) -> Placements:
    return _place_pods(problem, best_fit)


def place_by_gradient(problem: Problem, gpu: str, unit: int) -> Placements:
    """gpu: the resource whose fragments count, of which `unit` is one device. Raises ValueError for pods that take
    shares of another resource, which it does not know."""
    roles = [_single_pod_role(problem, j) for j in range(len(problem.gangs))]
    return _place_pods(problem, FragmentationGradient(problem, roles, problem.resources.index(gpu), unit))


def _single_pod_role(problem: Problem, j: int) -> Role:
    gang = problem.gangs[j]
    if len(gang.roles) != 1 or gang.minimum != 1 or gang.topology is not None or gang.running:
        raise ValueError(f"gang {gang.name} is more than one pod, has a topology, or runs")
    return gang.roles[0]


def _place_pods(problem: Problem, place: PlaceRule) -> Placements:
    """Place pods as they arrive. Placed ones stay; one that does not fit at its arrival is not tried again."""
    order = sorted(range(len(problem.gangs)), key=lambda j: (-problem.gangs[j].priority, problem.gangs[j].age, j))
    stays = len(order) * SECOND
    jobs = [Job(problem.gangs[j].name, at, stays, stays, _single_pod_role(problem, j)) for at, j in enumerate(order)]
    replay = Simulation(Workload(problem, jobs, device=0, loses_jobs=True), FirstThatFits(place)).run()
    runs = zip(order, replay.runs, strict=True)
    return {j: (Placement(0, run.holds[0].node, 1),) for j, run in runs if run.holds}
