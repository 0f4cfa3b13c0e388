"""Which jobs of a deep queue a plan looks at."""

from __future__ import annotations

from dataclasses import replace

from solver.options import Options
from solver.planner import solve
from solver.problem import Problem
from solver.simulation.planned import Foremost, may_all_start, whole_problem
from solver.simulation.site import Site
from solver.simulation.workload import Workload
from tests.builders.simulations import job, machines, workload


def site_of(world: Workload) -> Site:
    """All jobs wait."""
    site = Site(world)
    for j in range(len(world.jobs)):
        site.wait(j)
    return site


def foremost(world: Workload) -> list[int]:
    site = site_of(world)
    return Foremost(site, list(site.waiting_in_order())).jobs


def test_of_many_alike_as_many_as_the_cluster_holds_are_looked_at() -> None:
    assert foremost(workload(machines(3), *(job(f"j{n}", runs=10) for n in range(50)))) == [0, 1, 2]


def test_a_job_that_ends_sooner_than_those_before_it_is_looked_at() -> None:
    """It may be the only one that ends before a reservation."""
    jobs = [job(f"j{n}", runs=9 if n == 40 else 10) for n in range(50)]
    assert foremost(workload(machines(3), *jobs)) == [0, 1, 2, 40]


def test_a_queue_claims_as_much_as_with_all_its_jobs() -> None:
    """Else small jobs that are left out give their place within the entitlement to a large one behind them."""
    jobs = [job("large", size=4, runs=10), *(job(f"j{n}", runs=10) for n in range(50)), job("last", size=2, runs=10)]
    world = workload(machines(8), *jobs)
    site = site_of(world)
    site.start(0, ())
    site.room.take(jobs[0].role, ())
    assert Foremost(site, range(1, 52)).jobs == [*range(1, 9), 51]


def test_stand_ins_ask_for_what_is_left_out_and_never_start() -> None:
    jobs = [job(f"j{n}", runs=10, size=1 + n % 2, queue=n % 2) for n in range(40)]
    site = site_of(workload(machines(3, weights=(1, 1)), *jobs))
    found = Foremost(site, list(site.waiting_in_order()))
    stand_ins = list(found.stand_ins())
    left_out = [jobs[j] for j in range(40) if j not in found.jobs]
    for queue, gang in enumerate(stand_ins):
        assert gang.queue == queue
        assert gang.minimum == sum(role.replicas for role in gang.roles)
        assert gang.minimum == sum(of.role.replicas for of in left_out if of.queue == queue)
    few = whole_problem(site, found.jobs, stand_ins)
    assert started(few) == started(whole_problem(site, list(site.waiting_in_order())))


def started(problem: Problem) -> set[str]:
    decisions = solve(problem, Options(), reasons=False).decisions
    return {problem.gangs[decision.gang].name for decision in decisions if decision.action == "start"}


def test_none_is_left_out_of_a_queue_with_strict_order() -> None:
    cluster = machines(3)
    strict = replace(cluster, queues=tuple(replace(queue, strict_order=True) for queue in cluster.queues))
    assert len(foremost(workload(strict, *(job(f"j{n}", runs=10) for n in range(50))))) == 50


def test_jobs_that_ask_for_more_than_is_free_do_not_all_start() -> None:
    site = site_of(workload(machines(3), *(job(f"j{n}", runs=10) for n in range(4))))
    assert may_all_start(site, [0, 1, 2])
    assert not may_all_start(site, [0, 1, 2, 3])
