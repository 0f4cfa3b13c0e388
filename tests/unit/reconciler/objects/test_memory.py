"""What the writer remembers ends, what is refused again and again is given up, and a fight stops one object only."""

from __future__ import annotations

from reconciler.changes.diff import Change
from reconciler.changes.results import ChangeOutcome, ChangeResult
from reconciler.cluster.objects import Ref
from reconciler.objects.memory import FightDetector, WriterMemory
from reconciler.observation.own_writes import OwnWrites
from reconciler.timings import TIMINGS


def test_nothing_that_one_process_remembers_outlives_its_object() -> None:
    """S22: names with a date in them grew without end."""
    memory, own = WriterMemory(), OwnWrites()
    for name in ("kept", *(f"job-{day}" for day in range(1000))):
        change = Change("in-place", Ref("v1", "ConfigMap", "default", name))
        key = change.ref.key
        memory.record_apply(key, "x", "differences", 0.0)
        memory.record_result(ChangeResult(change, "refused"), 0.0)
        memory.refused_updates[key] = "x"
        memory.record_lost_answer(key, 0.0)
        memory.fights.record_correction(key, "them", 0.0)
        own.record_deletion(key, "uid")
    kept = {"ConfigMap/default/kept"}
    memory.trim(kept, 600.0)
    own.forget_except(kept)
    tables = memory.unfixable_differences, memory.applied_digests, memory.failures, memory.lost_answers
    for table in (*tables, memory.refused_updates, memory.paused_changes, own.entries["ConfigMap"]):
        assert table.keys() == kept
    assert not memory.fights.heat


def test_what_is_refused_again_and_again_is_given_up() -> None:
    """`--once` waited its whole time limit, ten minutes, for an object of a namespace that is not there."""
    memory, change = WriterMemory(), Change("create", Ref("v1", "ConfigMap", "none", "refused"))

    def is_given_up_after(outcome: ChangeOutcome, times: int) -> bool:
        for _ in range(times):
            memory.record_result(ChangeResult(change, outcome, "no such namespace"), 0.0)
        return memory.is_given_up(change)

    assert not is_given_up_after("refused", TIMINGS.objects.given_up_after - 1)
    assert is_given_up_after("refused", 1)
    assert not is_given_up_after("retry", 1), "a server that is too busy will answer"
    assert is_given_up_after("conflict", TIMINGS.objects.given_up_after)
    assert is_given_up_after("fight", 1)
    assert not memory.is_given_up(Change("create", Ref("v1", "ConfigMap", "none", "new")))


def test_corrections_in_quick_succession_are_a_fight_and_slow_ones_are_not() -> None:
    fights, most = FightDetector(), int(TIMINGS.objects.fight_threshold)
    assert not any(fights.record_correction("slow", "them", now=60.0 * at) for at in range(20))
    turns = [fights.record_correction("quick", "them", now=1200.0 + at) for at in range(most + 1)]
    assert turns == [*[False] * most, True]
    end = 1200.0 + most + TIMINGS.objects.fight_pause
    assert [fights.opponent("quick", at) for at in (1210.0, end - 1, end)] == ["them", "them", ""]
    assert not fights.opponent("slow", 1210.0)
