"""What each condition of the status means, in a sentence."""

from __future__ import annotations

SENTENCES = {
    ("Fetched", True): "The repository answers, and its newest commit is known.",
    ("Fetched", False): "The repository cannot be fetched; the last good commit stays in force and drift is put back.",
    ("Accepted", True): "The API server takes every object of the newest commit.",
    (
        "Accepted",
        False,
    ): "The API server refuses an object of the newest commit, or does not answer, so nothing of it is applied yet.",
    ("Compiled", True): "The newest commit has a plan.",
    ("Compiled", False): "There is no new plan; the last one stays in force, and nothing new starts.",
    (
        "CompilerFailed",
        True,
    ): "The compiler itself broke down, which is no fault of the commit; it is tried again, the last plan stays.",
    ("CompilerFailed", False): "The compiler gives answers.",
    (
        "HistoryRewritten",
        True,
    ): "The branch no longer holds the commit in force; nothing of it is applied until allowed.",
    ("HistoryRewritten", False): "The branch descends from the commit in force.",
    ("Observed", True): "Everything that a plan rests on can be read.",
    ("Observed", False): "A kind cannot be read; what depends on it is left as it is until it can.",
    ("InventoryLost", True): "The record of what is ours is gone while objects carry our mark; nothing is written.",
    ("InventoryLost", False): "The record of what is ours is there.",
    ("PassFailed", True): "No pass comes to its end, so nothing is compared or written until one does.",
    ("PassFailed", False): "Passes come to their end.",
    ("Applied", True): "The cluster holds what the plan says.",
    ("Applied", False): "Some objects are not as the plan says; each is tried again, and holds up no other.",
    ("PruneHeld", True): "Objects that left the repository are not deleted until that is allowed.",
    ("PruneHeld", False): "Nothing waits for leave to be deleted.",
    ("Fighting", True): "Somebody changes back what gangplan writes; these objects are left alone for a while.",
    ("Fighting", False): "Nobody changes back what gangplan writes.",
    (
        "SchedulerBehind",
        True,
    ): "The scheduler does not go by the configuration of the repository; the one before it is kept, or stands again.",
    ("SchedulerBehind", False): "Nothing shows that the scheduler goes by another configuration.",
    (
        "GangsHeld",
        True,
    ): "Gangs that the scheduler did not bind again and again are held; `gangplan rerun` tries one again.",
    ("GangsHeld", False): "No gang is held for not being bound.",
}
"""(type, whether it holds) -> the sentence."""


def condition_sentence(condition_type: str, holds: bool) -> str:
    """The sentence for a condition; empty for one that a newer reconciler has written."""
    return SENTENCES.get((condition_type, holds), "")
