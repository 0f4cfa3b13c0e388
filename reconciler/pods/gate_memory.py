"""What is remembered of gates that could not be lifted, and of starts that are in doubt. Decisions on data, no IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from reconciler.changes.planned import PlannedGang
from reconciler.cluster.objects import Ref
from reconciler.planning.snapshot import Snapshot
from reconciler.timings import PodTimings


@dataclass(frozen=True, slots=True)
class UnliftedGates:
    """Gates of one gang that cannot be lifted: since when, when they are tried again, and why."""

    since: float
    retry_at: float
    message: str


@dataclass(slots=True)
class GateMemory:
    """By the Ref.key of a gang's job.

    unlifted: of former passes. troubles: of this pass so far, why, and whether the next pass looks again: such gates
    wait for an answer or another plan. due_at: when gates that the server refused are tried again. doubtful_starts: the
    pods whose gates were to be lifted, where none is known to be. refused: how the gang was planned when its nodes were
    closed to it or had no room for it: a reason for a new plan.
    """

    timings: PodTimings = field(default_factory=PodTimings)
    unlifted: dict[str, UnliftedGates] = field(default_factory=dict)
    troubles: dict[str, tuple[str, bool]] = field(default_factory=dict)
    due_at: float = 0.0
    doubtful_starts: dict[str, tuple[Ref, ...]] = field(default_factory=dict)
    refused: dict[str, PlannedGang] = field(default_factory=dict)

    def note_trouble(self, key: str, reason: str, *, is_prompt: bool = True) -> None:
        self.troubles[key] = reason, is_prompt

    def end_pass(self, now: float) -> None:
        """Take the troubles of this pass: all other gates could be lifted, or need not. They are tried again after as
        long as that goes on, and `longest_gate_pause` at most."""
        found = {key: known for key, known in self.unlifted.items() if now < known.retry_at}
        for key, (message, is_prompt) in self.troubles.items():
            since = self.unlifted[key].since if key in self.unlifted else now
            pause = 0.0 if is_prompt else min(now - since, self.timings.longest_gate_pause)
            found[key] = UnliftedGates(since, now + pause, message)
        self.unlifted, self.troubles = found, {}

    def may_lift(self, key: str, now: float) -> bool:
        """Whether the gates of this gang are to be tried now."""
        return key not in self.unlifted or now >= self.unlifted[key].retry_at

    def lasting_troubles(self, now: float) -> dict[str, str]:
        """Ref.key of a gang -> why gates of it are not lifted, where that is not only so for a moment."""
        after = self.timings.gates_reported_after
        return {key: known.message for key, known in self.unlifted.items() if now - known.since >= after}

    def has_passing_troubles(self, now: float) -> bool:
        """Whether gates are not lifted of which it is not reported yet, since that may be over in a moment."""
        return len(self.lasting_troubles(now)) < len(self.unlifted)

    def pause(self, now: float) -> None:
        """Let a pass come soon for the gates that the server refused."""
        self.due_at = now + self.timings.first_gate_pause

    def doubt_start(self, gang: str, pods: Iterable[Ref]) -> None:
        """Note that a gang counts as started whose gates are about to be lifted."""
        self.doubtful_starts[gang] = tuple(pods)

    def confirm_start(self, gang: str) -> None:
        """Note that a gate of the gang was lifted, or may have been."""
        self.doubtful_starts.pop(gang, None)

    def take_failed_starts(self, is_open: Callable[[str], bool]) -> list[str]:
        """The gangs of which no gate was lifted, and none is under way any more; each once. is_open: by Ref.key."""
        doubtful = self.doubtful_starts.items()
        failed = [gang for gang, pods in doubtful if not any(is_open(pod.key) for pod in pods)]
        for gang in failed:
            del self.doubtful_starts[gang]
        return failed

    def believe_starts(self) -> None:
        """Count what the inventory has as started as started: another replica may have lifted gates meanwhile."""
        self.doubtful_starts.clear()

    def refuse(self, key: str, gang: PlannedGang) -> bool:
        """Note that the gang cannot start as it is planned; whether that is news."""
        is_news = self.refused.get(key) != gang
        self.refused[key] = gang
        return is_news

    def accept(self, key: str) -> None:
        """Note that the plan is not in the gang's way."""
        self.refused.pop(key, None)

    def still_refused(self, snapshot: Snapshot | None) -> frozenset[str]:
        """The refused gangs that the plan in force has as they were when they were refused; forgets the others."""
        gangs = snapshot.gangs if snapshot else {}
        self.refused = {key: gang for key, gang in self.refused.items() if gangs.get(key) == gang}
        return frozenset(self.refused)

    def deadlines(self) -> list[float]:
        """When gates that were not lifted are tried again."""
        return [self.due_at, *(known.retry_at for known in self.unlifted.values())]
