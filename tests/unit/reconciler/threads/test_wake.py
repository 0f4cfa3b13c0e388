"""The loop is stirred once for a pass that is due, and again for what does not wait for it."""

from __future__ import annotations

from reconciler.threads.wake import WakeEvent


def test_events_while_a_pass_is_due_do_not_stir_the_loop_and_urgent_ones_do() -> None:
    """Of a wave's thousands of events each woke the loop while it rested."""
    wake, stirs = WakeEvent(), []
    for happen in (wake.set, wake.set, wake.hurry, wake.set):
        wake.stirred.clear()
        happen()
        stirs.append((wake.is_set(), wake.stirred.is_set(), wake.is_urgent))
    wake.clear()
    wake.stirred.clear()
    wake.set()
    stirs.append((wake.is_set(), wake.stirred.is_set(), wake.is_urgent))
    assert stirs == [
        (True, True, False),
        (True, False, False),
        (True, True, True),
        (True, False, True),
        (True, True, False),
    ]
