"""What each condition of the status means, in a sentence."""

from __future__ import annotations

SENTENCES = {
    "Fetched": (
        "The repository answers, and its newest commit is known.",
        "The repository cannot be fetched; the last good commit stays in force and drift is put back.",
    ),
    "Compiled": (
        "The newest commit has a plan.",
        "There is no new plan; the last one stays in force, and nothing new starts.",
    ),
    "Accepted": (
        "The API server takes every object of the newest commit.",
        "The API server refuses an object of the newest commit, or does not answer, so nothing of it is applied yet.",
    ),
    "HistoryRewritten": (
        "The branch no longer holds the commit in force; nothing of it is applied until allowed.",
        "The branch descends from the commit in force.",
    ),
    "Observed": (
        "Everything that a plan rests on can be read.",
        "A kind cannot be read; what depends on it is left as it is until it can.",
    ),
    "PassFailed": (
        "No pass comes to its end, so nothing is compared or written until one does.",
        "Passes come to their end.",
    ),
    "InventoryLost": (
        "The record of what is ours is gone while objects carry our mark; nothing is written.",
        "The record of what is ours is there.",
    ),
    "Applied": (
        "The cluster holds what the plan says.",
        "Some objects are not as the plan says; each is tried again, and holds up no other.",
    ),
    "PruneHeld": (
        "Objects that left the repository are not deleted until that is allowed.",
        "Nothing waits for leave to be deleted.",
    ),
    "Fighting": (
        "Somebody changes back what gangplan writes; these objects are left alone for a while.",
        "Nobody changes back what gangplan writes.",
    ),
    "CompilerFailed": (
        "The compiler itself broke down, which is no fault of the commit; it is tried again, the last plan stays.",
        "The compiler gives answers.",
    ),
    "SchedulerBehind": (
        "The scheduler does not go by the configuration of the repository; the one before it is kept, or stands again.",
        "Nothing shows that the scheduler goes by another configuration.",
    ),
    "GangsHeld": (
        "Gangs that the scheduler did not bind again and again are held; `gangplan rerun` tries one again.",
        "No gang is held for not being bound.",
    ),
}
"""Type -> what it means where it holds, and where it does not; in the order of the status."""
CONDITION_TYPES = tuple(SENTENCES)


def condition_sentence(condition_type: str, holds: bool) -> str:
    """The sentence for a condition; empty for one that a newer reconciler has written."""
    true, false = SENTENCES.get(condition_type, ("", ""))
    return true if holds else false
