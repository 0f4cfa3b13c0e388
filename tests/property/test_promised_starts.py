"""Plan after plan with queues first: a start that was told is kept, or GW125 names a true cause, which is never a job
of the own queue that goes later."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from compiler.explain.planned_starts import START_SLACK
from compiler.fields.times import rfc3339
from compiler.outcome import JobDecision
from solver.problem import Gang, Problem
from solver.semantics.order import precedence
from solver.state.queue_books import QueueBooks
from tests.builders.depth import settings
from tests.property.plan_events import rare_events
from tests.property.promise_stream import FIRST, GPUS, STEP, Job, Moment, PromiseStream

STEPS = 9


@st.composite
def streams(draw: st.DrawFn) -> PromiseStream:
    """Few nodes, full most of the time. Jobs end early, on time or late, and some say nothing."""
    nodes, queues = draw(st.integers(2, 3)), draw(st.sampled_from((("a", "b"), ("a", "b", "c"))))
    plugin = draw(st.sampled_from(("capacity", "capacity", "proportion", "drf")))
    shares = st.sampled_from((0, nodes * GPUS // len(queues), nodes * GPUS // 4))
    deserved = {name: draw(shares) if plugin == "capacity" else 0 for name in queues}
    evicting = draw(st.sampled_from(((), (), ("reclaim",), ("preempt",), ("reclaim", "preempt"))))

    def some_job(number: int) -> Job:
        lasts = draw(st.sampled_from((1, 2, 3, 4, 6)))
        says = draw(st.sampled_from((lasts, lasts, lasts, lasts + 1, max(1, lasts - 1), None)))
        return Job(
            f"j{number}",
            draw(st.sampled_from(queues)),
            draw(st.integers(0, 3)) == 0,
            draw(st.sampled_from((1, 1, 2, nodes))),
            draw(st.integers(1, GPUS)),
            draw(st.sampled_from((0, 0, 1, 2, 3, 4))),
            lasts,
            says,
        )

    jobs = tuple(some_job(number) for number in range(draw(st.integers(5, 8))))
    return PromiseStream(nodes, deserved, (plugin,), ("allocate", *evicting), jobs, STEPS)


def comes_later(problem: Problem, own: int, other: int) -> bool:
    """Whether the other gang waits or starts now, behind the own one in its queue."""

    def turn(j: int) -> tuple[int, int]:
        return -precedence(problem.gangs[j]), problem.gangs[j].age

    same_queue = problem.gangs[own].queue == problem.gangs[other].queue
    return same_queue and not problem.gangs[other].running and turn(own) < turn(other)


def is_true_cause(moment: Moment, own: Gang, other: Gang) -> bool:
    """A late run, a gang that comes first in its queue, or one of another queue that is entitled, of a higher priority
    or told a start too; where no plugin says what is deserved, shares follow what is asked for."""
    problem = moment.problem
    if other.name.partition("/")[2] in moment.late or precedence(other) >= precedence(own):
        return True
    if other.queue == own.queue:
        return precedence(other) > precedence(own) or (other.times.promised and other.age < own.age)
    books = QueueBooks(problem)
    return not problem.policy.capacity or books.is_entitled(other.queue, books.min_demand(problem.gangs.index(other)))


def check_promise(moment: Moment, decided: JobDecision) -> str:
    """What became of the start that this waiting job was told."""
    problem, held = moment.problem, moment.plan.reservation
    index = {gang.name: j for j, gang in enumerate(problem.gangs)}
    name = decided.gang.document.name
    own, told = index[f"team/{name}"], moment.told[name]
    found = [reason for reason in decided.reasons if reason.code == "GW125"]
    expected = moment.now if decided.start.starts_at is None else decided.start.starts_at
    if held is not None and held.gang == own and expected <= told + START_SLACK:
        assert not found
        return "kept"
    (reason,) = found
    gangs = reason.facts.get("gangs", ())
    named = [index[gang] for gang in gangs] if isinstance(gangs, tuple) else []
    assert not any(comes_later(problem, own, j) for j in named), reason
    if ", after" in reason.message or "no end is known" in reason.message:
        assert named
        return "behind an end"
    if "the share of queue" in reason.message:
        assert problem.policy.proportion
        return "share too small"
    assert any(is_true_cause(moment, problem.gangs[own], problem.gangs[j]) for j in named), reason
    return "lost"


def test_a_start_that_was_told_is_kept_or_its_loss_has_a_true_cause() -> None:
    seen = Counter[str]()

    @settings(max_examples=40)
    @given(streams())
    def keeps(stream: PromiseStream) -> None:
        for moment in stream.moments():
            for decided in moment.outcome.decisions:
                if decided.gang.document.name in moment.told:
                    seen[check_promise(moment, decided) if decided.action == "wait" else "starts"] += 1

    keeps()
    assert rare_events(seen, kept=20, starts=10, lost=3, behind_an_end=1) == {}


# ---- single cases


def job(name: str, queue: str, nodes: int, comes: int, lasts: int, says: int | None = None) -> Job:
    """Of whole nodes. says: as long as it lasts, by default."""
    return Job(name, queue, False, nodes, GPUS, comes, lasts, lasts if says is None else says)


def decided_at(stream: PromiseStream, step: int, name: str) -> JobDecision:
    """What is decided of the job at this step."""
    moment = next(moment for at, moment in enumerate(stream.moments()) if at == step)
    return next(decided for decided in moment.outcome.decisions if decided.gang.document.name == name)


def test_a_borrower_that_was_told_a_start_goes_before_one_of_a_queue_with_a_lower_share() -> None:
    """j2 ends before it said, and j4 would borrow as j3 does."""
    jobs = (job("j1", "a", 1, 0, 9), job("j2", "c", 1, 0, 2, says=3), job("j3", "a", 1, 1, 3), job("j4", "b", 1, 2, 3))
    stream = PromiseStream(2, {"a": 0, "b": 0, "c": 0}, ("capacity",), ("allocate",), jobs, 3)
    assert decided_at(stream, 2, "j3").action == "start"


def test_nobody_is_evicted_for_a_job_that_would_take_the_promised_start_of_an_older_one_of_its_queue() -> None:
    """j2 is larger than what its queue deserves, and j3 is not."""
    jobs = (job("j1", "a", 2, 0, 5), job("j2", "b", 2, 1, 2), job("j3", "b", 1, 2, 4))
    stream = PromiseStream(2, {"a": 4, "b": 4}, ("capacity",), ("allocate", "reclaim"), jobs, 4)
    decided = decided_at(stream, 3, "j2")
    assert (decided.start.starts_at, [reason.code for reason in decided.reasons]) == (FIRST + 5 * STEP, ["GW102"])


def test_a_run_that_does_not_end_when_it_said_is_named_beside_the_end_that_is_awaited_instead() -> None:
    jobs = (job("j1", "a", 1, 0, 6, says=2), job("j2", "a", 1, 0, 4), job("j3", "a", 1, 0, 1))
    stream = PromiseStream(2, {"a": 0}, ("capacity",), ("allocate",), jobs, 4)
    reason = decided_at(stream, 2, "j3").reasons[-1]
    told, at = rfc3339(FIRST + 2 * STEP), rfc3339(FIRST + 4 * STEP)
    assert reason.message == (f"announced start {told} missed: team/j1 overran; now expected at {at}, after team/j2")


def test_a_share_that_newcomers_made_too_small_is_said_and_no_later_job_blamed() -> None:
    """j2 fits the share of a as long as no other queue asks for anything."""
    jobs = (job("j1", "a", 2, 0, 4), job("j2", "a", 2, 1, 2), job("j3", "b", 2, 2, 2), job("j4", "a", 1, 2, 2))
    stream = PromiseStream(2, {"a": 0, "b": 0}, ("proportion",), ("allocate",), jobs, 3)
    told = rfc3339(FIRST + 4 * STEP)
    reason = decided_at(stream, 2, "j2").reasons[-1]
    assert reason.message == f"announced start {told} missed: the share of queue a is too small now"


def test_a_job_that_its_queue_never_deserves_hides_no_smaller_one_that_it_does() -> None:
    """j1 needs 4 GPUs and b deserves 2: j5 may claim these, so that j2, which borrows, is promised none of them."""
    jobs = (
        Job("j1", "b", False, 1, 4, 0, 1, None),
        Job("j2", "a", True, 2, 4, 0, 1, 1),
        Job("j3", "a", True, 1, 1, 0, 1, 1),
        Job("j4", "b", True, 1, 1, 0, 1, 1),
        Job("j5", "b", False, 1, 1, 0, 1, None),
        Job("j6", "a", True, 1, 2, 0, 4, 4),
    )
    stream = PromiseStream(2, {"a": 0, "b": 2, "c": 0}, ("capacity",), ("allocate",), jobs, 6)
    for moment in stream.moments():
        for decided in moment.outcome.decisions:
            if decided.gang.document.name in moment.told and decided.action == "wait":
                check_promise(moment, decided)
