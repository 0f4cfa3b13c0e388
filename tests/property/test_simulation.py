"""What holds for every replay of a random workload, whoever decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.options import Options
from solver.planner import solve
from solver.problem import Problem
from solver.simulation.measures import share_curves
from solver.simulation.planned import Foremost, Planned, problem_by_queue, whole_problem
from solver.simulation.policies import Conservative, Event, lowest_numbered
from solver.simulation.replay import Replay, Simulation
from solver.simulation.site import Site
from solver.simulation.workload import Job, Workload
from tests.builders.depth import settings
from tests.builders.simulations import POLICIES, job, machines, replay, workload

EVERY = (*POLICIES, "volcano")
EXAMPLES = {"gangplan": 8}
"""Fewer than the others where each event is a plan."""


@st.composite
def workloads(draw: st.DrawFn, outages: bool = False, maintenance: bool = False) -> Workload:
    count, gpus = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    jobs = [
        job(
            f"j{number}",
            size=draw(st.integers(1, 4)),
            gpus=draw(st.integers(1, gpus)),
            runs=draw(st.integers(1, 12)),
            at=draw(st.integers(0, 20)),
            requested=draw(st.none() | st.integers(1, 15)),
            priority=draw(st.integers(0, 1)),
            queue=draw(st.integers(0, 1)),
        )
        for number in range(draw(st.integers(1, 9)))
    ]
    away = st.tuples(st.integers(0, count - 1), st.integers(0, 15), st.integers(16, 40))
    lost = (
        {node: (node, start, end) for node, start, end in draw(st.lists(away, max_size=2))}
        if outages or maintenance
        else {}
    )
    notice = draw(st.integers(0, 15)) if maintenance else None
    away_from = [(*outage, *(() if notice is None else (min(notice, outage[1]),))) for outage in lost.values()]
    return workload(machines(count, gpus, weights=(1, 2)), *jobs, outages=away_from)


def fits_alone(world: Workload, of: Job) -> bool:
    (gpus,) = of.role.request
    return sum(node.capacity[0] // gpus for node in world.cluster.nodes) >= of.role.replicas


def free_at(found: Replay, moment: int) -> list[int]:
    """GPUs free on each node after what happened at this moment."""
    free = [node.capacity[0] for node in found.workload.cluster.nodes]
    for of, run in zip(found.workload.jobs, found.runs, strict=True):
        if run.start is not None and run.finish is not None and run.start <= moment < run.finish:
            for held in run.holds:
                free[held.node] -= held.pods * of.role.request[0]
    return free


def check_replay(found: Replay) -> None:
    """Gangs are whole, run as long as they do, wait no negative time, and never hold more than a node has."""
    world = found.workload
    for of, run in zip(world.jobs, found.runs, strict=True):
        assert (run.start is not None) == fits_alone(world, of)
        if run.start is not None and run.finish is not None:
            assert run.start >= of.submit
            assert run.finish - run.start == of.duration
            assert sum(held.pods for held in run.holds) == of.role.replicas
            assert min(free_at(found, run.start)) >= 0
    assert all(before.end <= after.start for before, after in zip(found.spans, found.spans[1:], strict=False))
    curves = share_curves(found)
    assert (curves.deserved <= curves.asked + 1e-9).all()
    assert curves.deserved.sum(axis=1) == pytest.approx(np.minimum(1, curves.asked.sum(axis=1)))
    given_time = sum((span.end - span.start) * span.used for span in found.spans)
    asked_time = sum(
        world.devices(j) * (of.duration + found.runs[j].lost)
        for j, of in enumerate(world.jobs)
        if found.runs[j].start is not None
    )
    assert given_time == asked_time


@pytest.mark.parametrize("policy", EVERY)
def test_every_replay_is_possible_and_complete(policy: str) -> None:
    @settings(max_examples=EXAMPLES.get(policy, 60), deadline=None)
    @given(workloads())
    def holds(world: Workload) -> None:
        found = replay(policy, world)
        check_replay(found)
        assert found.runs == replay(policy, world).runs

    holds()


@pytest.mark.parametrize("policy", EVERY)
def test_jobs_that_lose_nodes_run_to_their_end(policy: str) -> None:
    @settings(max_examples=EXAMPLES.get(policy, 40), deadline=None)
    @given(workloads(outages=True))
    def holds(world: Workload) -> None:
        check_replay(replay(policy, world))

    holds()


@pytest.mark.parametrize("policy", EVERY)
def test_nothing_runs_in_a_maintenance_and_what_knew_of_it_in_time_does_not_meet_it(policy: str) -> None:
    @settings(max_examples=EXAMPLES.get(policy, 60), deadline=None)
    @given(workloads(maintenance=True))
    def holds(world: Workload) -> None:
        found = replay(policy, world)
        check_replay(found)
        for of, run in zip(world.jobs, found.runs, strict=True):
            for outage in world.outages:
                meets = run.start is not None and run.start < outage.end and outage.start < run.start + of.duration
                assert not (meets and outage.node in {held.node for held in run.holds})
        if policy != "volcano" and all(outage.known == 0 for outage in world.outages):
            kept = (run for of, run in zip(world.jobs, found.runs, strict=True) if of.requested >= of.duration)
            assert not any(run.restarts for run in kept)

    holds()


@settings(max_examples=60, deadline=None)
@given(workloads())
def test_first_fit_leaves_no_room_that_a_waiting_job_could_use(world: Workload) -> None:
    found = replay("first-fit", world)
    moments = {run.start for run in found.runs if run.start is not None} | {
        run.finish for run in found.runs if run.finish
    }
    for moment in moments:
        free = free_at(found, moment)
        for of, run in zip(world.jobs, found.runs, strict=True):
            if run.start is not None and of.submit <= moment < run.start:
                assert sum(have // of.role.request[0] for have in free) < of.role.replicas


@settings(max_examples=60, deadline=None)
@given(workloads())
def test_first_in_first_out_starts_in_order(world: Workload) -> None:
    found = replay("fifo", world)
    runs = zip(world.jobs, found.runs, strict=True)
    started = sorted((run.start, of.submit) for of, run in runs if run.start is not None and of.priority == 0)
    by_start = [submit for _, submit in started]
    assert by_start == sorted(by_start)


@settings(max_examples=60, deadline=None)
@given(workloads())
def test_conservative_starts_nobody_later_than_in_order_of_arrival(world: Workload) -> None:
    """Where jobs run as long as they say, and pods of one GPU fit wherever one is free."""
    single = {of.role: replace(of.role, request=(1,)) for of in world.jobs}
    jobs = [Job(of.name, of.submit, of.duration, of.duration, single[of.role]) for of in world.jobs]
    honest = workload(world.cluster, *jobs)
    runs = zip(replay("conservative", honest).runs, replay("fifo", honest).runs, strict=True)
    assert all(early.start <= late.start for early, late in runs if early.start is not None and late.start is not None)


class PlannedTwice:
    """As `Planned`; where all jobs start by the small problem, they must by the whole one."""

    def decide(self, site: Site, event: Event) -> None:
        waiting = list(site.waiting_in_order())
        problems = [make(site, waiting) for make in (problem_by_queue, whole_problem)] if waiting else []
        plans = [solve(problem, reasons=False).decisions[-len(waiting) :] for problem in problems]
        by_queue, whole = ([decision.action for decision in plan] for plan in plans) if plans else ([], [])
        assert by_queue == whole or by_queue != ["start"] * len(waiting)
        Planned(Options()).decide(site, event)


@settings(max_examples=15)
@given(workloads())
def test_jobs_that_start_next_to_gangs_of_queues_start_next_to_what_runs(world: Workload) -> None:
    Simulation(world, PlannedTwice()).run()


@st.composite
def deep_queues(draw: st.DrawFn) -> Workload:
    """Many jobs alike, and some larger ones, on few nodes."""
    kinds = [(draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(0, 1))) for _ in range(3)]
    jobs = [
        job(f"j{number}", size=size, gpus=gpus, queue=queue, runs=draw(st.integers(1, 9)), at=draw(st.integers(0, 4)))
        for number in range(draw(st.integers(8, 24)))
        for size, gpus, queue in [draw(st.sampled_from(kinds))]
    ]
    return workload(machines(draw(st.integers(2, 4)), 2, weights=(1, 2)), *jobs)


class PlannedForemost:
    """As `Planned`; of the foremost jobs alone it must start those that it starts of all that wait."""

    def decide(self, site: Site, event: Event) -> None:
        waiting = list(site.waiting_in_order())
        foremost = Foremost(site, waiting)
        few = whole_problem(site, foremost.jobs, foremost.stand_ins())
        assert started(few) == started(whole_problem(site, waiting))
        Planned(Options()).decide(site, event)


def started(problem: Problem) -> set[str]:
    decisions = solve(problem, reasons=False).decisions
    return {problem.gangs[decision.gang].name for decision in decisions if decision.action == "start"}


@settings(max_examples=10, deadline=None)
@given(deep_queues())
def test_the_foremost_jobs_start_as_if_all_were_decided(world: Workload) -> None:
    Simulation(world, PlannedForemost()).run()


class BookedAgain(Conservative):
    """Makes each reservation again, whatever has changed."""

    def _stays(self, site: Site, j: int) -> bool:
        return False


@settings(max_examples=100, deadline=None)
@given(workloads() | deep_queues())
def test_reservations_stay_that_would_be_made_again_as_they_are(world: Workload) -> None:
    again = Simulation(world, BookedAgain(lowest_numbered)).run()
    assert replay("conservative", world).runs == again.runs
