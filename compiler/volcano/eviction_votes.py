"""Eviction votes: which plugins decide on victims (Volcano, pkg/scheduler/framework/session_plugins.go)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compiler import kubernetes as k8s
from compiler.specs.cluster_spec import SchedulerSpec

if TYPE_CHECKING:
    from solver.problem import EvictionVotes

PREEMPT_ACTIONS = ("preempt", "gangpreempt")
RECLAIM_ACTIONS = ("reclaim", "gangreclaim")
"""(action that evicts pod by pod, action that evicts by gangs)"""
EVICTION_ACTIONS = (*PREEMPT_ACTIONS, *RECLAIM_ACTIONS)
PREEMPT_VOTERS = frozenset({"priority", "gang", "conformance", "drf", "cdp", "pdb"})
RECLAIM_VOTERS = frozenset({"gang", "conformance", "cdp", "pdb", "proportion", "capacity"})
GANG_ACTION_VOTERS = frozenset({"priority", "gang", "conformance", "capacity"})
"""Plugins that vote on victims: of preempt, of reclaim, and of the two gang actions, which no flag switches off."""
POD_EVICTION_ACTIONS = (
    (*PREEMPT_ACTIONS, PREEMPT_VOTERS, "enablePreemptable"),
    (*RECLAIM_ACTIONS, RECLAIM_VOTERS, "enableReclaimable"),
)
"""(action, its gang action, who votes on it, the flag that takes a plugin's vote away)"""
TRUE_WORDS = frozenset({"1", "t", "T", "true", "TRUE", "True"})
"""Texts that Volcano treats as true; any other text is false."""


def eviction_votes(scheduler: SchedulerSpec | None) -> tuple[EvictionVotes | None, EvictionVotes | None]:
    """Return the votes on preemption (inside a queue) and on reclaim (across queues); None where no action evicts or no
    plugin votes, as in Volcano's default configuration. Of an action and its gang variant, the more permissive one
    counts."""
    if scheduler is None:
        return None, None
    preempting, reclaiming = (_action_votes(scheduler, *action) for action in POD_EVICTION_ACTIONS)
    return preempting, reclaiming


def votes_if_added(scheduler: SchedulerSpec | None) -> tuple[EvictionVotes | None, EvictionVotes | None]:
    """As `eviction_votes`, were preempt and reclaim among the actions; Volcano's default configuration has votes."""
    from solver.problem import EvictionVotes

    if scheduler is None:
        return EvictionVotes(), EvictionVotes()
    added = (PREEMPT_ACTIONS[0], RECLAIM_ACTIONS[0])
    return eviction_votes(replace(scheduler, actions=(*scheduler.actions, *added)))


def _action_votes(
    scheduler: SchedulerSpec, plain: str, gang: str, voters: frozenset[str], flag: str
) -> EvictionVotes | None:
    from solver.problem import EvictionVotes

    found = []
    if plain in scheduler.actions and (names := deciding_plugins(scheduler, voters, flag)):
        found.append(
            EvictionVotes(
                whole_gangs="gang" not in names, compare_shares="drf" in names and flag == "enablePreemptable"
            )
        )
    if gang in scheduler.actions and any(plugin.name in GANG_ACTION_VOTERS for plugin in scheduler.plugins):
        allowed = scheduler.configurations.get(gang, {}).get("allowWholeBundle", True)
        found.append(EvictionVotes(whole_gangs=allowed is not False))
    return max(found, key=lambda vote: (vote.whole_gangs, not vote.compare_shares), default=None)


def deciding_plugins(scheduler: SchedulerSpec, voters: frozenset[str], flag: str) -> frozenset[str]:
    """Return the plugins that decide on victims of a plain action: the voters of the first tier that has any, unless
    switched off.

    All plugins of the tier must agree. Where the first tier allows no victim on a node, Volcano asks the next tier; the
    plan does not, since that would expose exactly the pods that the first tier protects
    (docs/develop/decisions/0009-victims.md).
    """
    for tier in scheduler.tiers:
        enabled = (plugin.name for plugin in tier if plugin.flags.get(flag, True))
        if names := voters.intersection(enabled):
            return names
    return frozenset()


def preemptable_word(annotations: Mapping[str, object], labels: Mapping[str, object]) -> bool | None:
    """Return the value of `volcano.sh/preemptable`, the annotation before the label; None without either. An invalid
    boolean is false (Volcano, api.GetPodPreemptable)."""
    for texts in (annotations, labels):
        if k8s.PREEMPTABLE_ANNOTATION in texts:
            return str(texts[k8s.PREEMPTABLE_ANNOTATION]) in TRUE_WORDS
    return None


def cooldown_text(annotations: Mapping[str, object], labels: Mapping[str, object]) -> str | None:
    """Return the value of `volcano.sh/cooldown-time`, the label before the annotation; None without either (plugin cdp,
    podCooldownTime)."""
    text = labels.get(k8s.COOLDOWN_ANNOTATION, annotations.get(k8s.COOLDOWN_ANNOTATION))
    return None if text is None else str(text)


@dataclass(frozen=True, slots=True)
class EvictionWords:
    """Words of a pod, or its template, on its eviction; None for absent ones. is_critical: it is of a system priority
    class."""

    preemptable: bool | None = None
    cooldown: str | None = None
    is_critical: bool | None = None

    def completed_by(self, template: EvictionWords) -> EvictionWords:
        """Return the words, with the template's for absent ones."""
        return EvictionWords(
            template.preemptable if self.preemptable is None else self.preemptable,
            template.cooldown if self.cooldown is None else self.cooldown,
            template.is_critical if self.is_critical is None else self.is_critical,
        )


def pod_eviction_words(pod: k8s.Object) -> EvictionWords:
    annotations, labels = k8s.annotations_of(pod), k8s.labels_of(pod)
    priority_class = (pod.get("spec") or {}).get("priorityClassName")
    return EvictionWords(
        preemptable_word(annotations, labels),
        cooldown_text(annotations, labels),
        priority_class in k8s.SYSTEM_PRIORITIES if priority_class else None,
    )


def has_eviction_action(scheduler: SchedulerSpec | None) -> bool:
    """Return whether any action evicts pods."""
    return scheduler is not None and any(action in EVICTION_ACTIONS for action in scheduler.actions)


def has_cooldown_plugin(scheduler: SchedulerSpec | None) -> bool:
    """Return whether the plugin cdp protects young pods. Its flags switch it off for the plain actions. Volcano's gang
    actions ignore it; the plan honours it there too, to protect what the owner wants protected."""
    if scheduler is None:
        return False
    flags = {"preempt": "enablePreemptable", "reclaim": "enableReclaimable"}
    used_flags = [flags.get(action, "") for action in scheduler.actions if action in EVICTION_ACTIONS]
    cooldown_plugins = [plugin for plugin in scheduler.plugins if plugin.name == "cdp"]
    return any(plugin.flags.get(flag, True) for plugin in cooldown_plugins for flag in used_flags)
