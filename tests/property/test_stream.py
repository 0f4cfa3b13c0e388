"""Plan after plan on a small cluster where gangs end and others come: no promise is moved back, or with queues first it
is said for whom, and nobody who is late waits for newcomers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from solver import Problem
from solver.plan import Plan
from solver.problem import Gang, GangTimes, HyperNode, Node, Placement, Policy, Queue, QuotaOrder, Role, Topology
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs as solve
from tests.builders.problems import with_fields
from tests.property.plan_events import rare_events

TREE = (HyperNode("s0", 1, 2), HyperNode("s1", 1, 2), HyperNode("spine", 2))
STEPS = 14


@dataclass(frozen=True)
class Job:
    """lasts: seconds that it really runs; told: whether the solver knows."""

    name: str
    pods: int
    gpus: int
    queue: int
    lasts: int
    told: bool
    topology: Topology | None = None


@dataclass
class Stream:
    """The cluster at one second after the other. large: the job that is watched; late: whether it is overdue from the
    beginning. problem: of this second."""

    nodes: tuple[Node, ...]
    capability: int | None
    large: Job
    running: dict[Job, tuple[int, tuple[Placement, ...]]]
    coming: list[list[Job]]
    late: bool
    order: QuotaOrder
    waiting: list[Job] = field(default_factory=list)
    promises: list[int] = field(default_factory=list)
    started: int | None = None
    problem: Problem | None = None

    def world(self, now: int) -> Problem:
        unset = (None,)
        queues = (
            Queue("q0", None, 1, 0, unset, unset, (self.capability,), (0,)),
            Queue("q1", None, 1, 0, unset, unset, unset, (0,)),
        )
        jobs = [*self.running, self.large, *self.waiting]
        gangs = tuple(self.gang(job, age, now) for age, job in enumerate(jobs))
        return Problem(("gpu",), self.nodes, TREE, queues, gangs, Policy(order=self.order))

    def gang(self, job: Job, age: int, now: int) -> Gang:
        end, pods = self.running.get(job, (0, ()))
        roles = (Role("r", job.pods, job.pods, (job.gpus,), frozenset({0})),)
        made = Gang(
            job.name,
            job.queue,
            0,
            age,
            job.pods,
            roles,
            job.topology,
            running=pods,
            times=GangTimes(duration=job.lasts if job.told else None),
        )
        late = job is self.large and (self.late or bool(self.promises))
        told = job is self.large and bool(self.promises)
        return with_fields(made, ends_in=end - now if pods and job.told else None, overdue=late, promised=told)

    def plans(self) -> Iterator[Plan]:
        """One for each second until the large job starts."""
        for now, arriving in enumerate(self.coming):
            self.running = {job: run for job, run in self.running.items() if run[0] > now}
            self.waiting += arriving
            self.problem = world = self.world(now)
            made = solve(world)
            assert verify(world, made) == []
            jobs = {job.name: job for job in (self.large, *self.waiting)}
            for decision in made.decisions:
                if decision.action == "start" and (job := jobs[world.gangs[decision.gang].name]) is not self.large:
                    self.running[job] = now + job.lasts, decision.placements
                    self.waiting.remove(job)
                elif decision.action == "start":
                    self.started = now
            held = made.reservation
            if held is not None and held.starts_in is not None and world.gangs[held.gang].name == "large":
                self.promises.append(now + held.starts_in)
            yield made
            if self.started is not None:
                return


@st.composite
def streams(draw: st.DrawFn, *, late: bool, told: bool, orders: tuple[QuotaOrder, ...]) -> Stream:
    """Nodes of 4 GPUs, mostly full of jobs that run for up to 6 seconds; the large one fits the empty cluster.

    late: it is overdue from the beginning, and no newcomer says how long it runs. told: what runs at the beginning
    does.
    """
    nodes = tuple(Node(f"n{n}", 0, n % 2, (4,), (4,)) for n in range(draw(st.integers(2, 4))))
    hard = draw(st.sampled_from((None, Topology("hard", 1)))) if len(nodes) == 4 else None
    pods = draw(st.integers(1, 2 if hard else len(nodes)))
    large = Job("large", pods, draw(st.integers(3, 4)), draw(st.integers(0, 1)), 3, draw(st.booleans()), hard)
    capability = draw(st.sampled_from((None, None, pods * large.gpus, 4 * len(nodes))))
    running: dict[Job, tuple[int, tuple[Placement, ...]]] = {}
    for n in range(len(nodes)):
        if size := draw(st.sampled_from((4, 4, 2, 0))):
            job = Job(f"r{n}", 1, size, 1, draw(st.integers(1, 6)), told)
            running[job] = job.lasts, (Placement(0, n, 1),)

    def newcomer(number: int) -> Job:
        lasts, says = draw(st.integers(1, 6)), not late and draw(st.booleans())
        return Job(
            f"w{number:03d}",
            draw(st.sampled_from((1, 1, 2))),
            draw(st.sampled_from((1, 2, 4))),
            draw(st.integers(0, 1)),
            lasts,
            says,
        )

    coming = [[newcomer(2 * step + k) for k in range(draw(st.integers(0, 2)))] for step in range(STEPS)]
    return Stream(nodes, capability, large, running, coming, late, draw(st.sampled_from(orders)))


def blamed_queues(world: Problem, made: Plan) -> set[int]:
    """The queues of those that the explanation names (GW125, compiler.outcome): newcomers that the large job now waits
    for, else the gangs of its facts, or the one with the reservation."""
    large, held = next(g for g, gang in enumerate(world.gangs) if gang.name == "large"), made.reservation
    if held is not None and held.gang == large:
        named = {j for j in held.awaited_gangs if not world.gangs[j].running} or set(held.awaited_gangs)
    else:
        named = {j for fact in made.decisions[large].facts for j in getattr(fact, "gangs", ())}
        named = named or ({held.gang} if held is not None else set())
    return {world.gangs[j].queue for j in named}


def test_with_priorities_first_promises_are_kept_and_with_queues_first_kept_or_lost_to_another_queue() -> None:
    seen = Counter[str]()

    @settings(max_examples=20)
    @given(streams(late=False, told=True, orders=("priorities-first", "queues-first")))
    def keeps(stream: Stream) -> None:
        told: int | None = None
        for second, made in enumerate(stream.plans()):
            world, held = stream.problem, made.reservation
            assert world is not None
            mine = held is not None and world.gangs[held.gang].name == "large"
            start = second + held.starts_in if held is not None and mine and held.starts_in is not None else None
            kept = told is None or stream.started == second or (start is not None and start <= told)
            assert kept or (stream.order == "queues-first" and blamed_queues(world, made) - {stream.large.queue})
            seen["lost"] += not kept
            seen["kept"] += told is not None and stream.started == second
            told = None if not kept else start if start is not None else told
        assert told is None or stream.started is not None

    keeps()
    assert rare_events(seen, lost=1, kept=6) == {}


@settings(max_examples=25)
@given(streams(late=True, told=False, orders=("priorities-first",)))
def test_an_overdue_gang_starts_when_the_gangs_before_it_have_ended_whatever_is_submitted(stream: Stream) -> None:
    ends = max((end for end, _ in stream.running.values()), default=0)
    for _ in stream.plans():
        pass
    assert stream.started is not None
    assert stream.started <= ends
