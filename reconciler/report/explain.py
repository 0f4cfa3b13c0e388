"""What each condition of the status means, in a sentence."""

from __future__ import annotations

SENTENCES = {
    ("Fetched", True): "The repository answers, and its newest commit is known.",
    ("Fetched", False): "The repository cannot be fetched; the last good commit stays in force.",
    ("Compiled", True): "The newest commit has a plan.",
    ("Compiled", False): "There is no new plan; the last one stays in force, and nothing new starts.",
    ("Accepted", True): "The API server takes every object of the newest commit.",
    ("Accepted", False): "The API server refuses an object of the newest commit, or does not answer.",
    ("HistoryRewritten", True): "The branch no longer holds the commit in force; nothing of it is applied.",
    ("HistoryRewritten", False): "The branch descends from the commit in force.",
    ("Observed", True): "Everything that a plan rests on can be read.",
    ("Observed", False): "A kind cannot be read; what depends on it is left as it is until it can.",
    ("PassFailed", True): "No pass completes, so nothing is compared or written until one does.",
    ("PassFailed", False): "Passes complete.",
    ("InventoryLost", True): "The record of what is ours is gone; nothing is written.",
    ("InventoryLost", False): "The record of what is ours is there.",
    ("Applied", True): "The cluster holds what the plan says.",
    ("Applied", False): "Some objects are not as the plan says; each is tried again on its own.",
    ("PruneHeld", True): "Objects that left the repository are not deleted until that is allowed.",
    ("PruneHeld", False): "Nothing waits for leave to be deleted.",
    ("Fighting", True): "Another client changes back what gangplan writes; these objects are left alone.",
    ("Fighting", False): "Nobody changes back what gangplan writes.",
    ("CompilerFailed", True): "The compiler broke down, which is no fault of the commit; it is tried again.",
    ("CompilerFailed", False): "The compiler gives answers.",
    ("SchedulerBehind", True): "The scheduler does not use the repository's configuration, but the one before.",
    ("SchedulerBehind", False): "Nothing shows that the scheduler uses another configuration.",
    ("GangsHeld", True): "Gangs that the scheduler did not bind are held; `gangplan rerun` tries one again.",
    ("GangsHeld", False): "No gang is held for not being bound.",
}
"""(Type, whether it holds) -> what that means; in the order of the status."""
CONDITION_TYPES = tuple(dict.fromkeys(name for name, _ in SENTENCES))


def condition_sentence(condition_type: str, holds: bool) -> str:
    """The sentence for a condition; empty for one that a newer reconciler has written."""
    return SENTENCES.get((condition_type, holds), "")
