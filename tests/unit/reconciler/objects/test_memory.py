"""What the writer remembers ends."""

from __future__ import annotations

from reconciler.changes.diff import Change
from reconciler.changes.results import ChangeResult
from reconciler.cluster.objects import Ref
from reconciler.objects.memory import WriterMemory
from reconciler.observation.own_writes import OwnWrites


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
