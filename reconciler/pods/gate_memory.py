"""What is remembered of gates that could not be lifted, and of starts that are in doubt. Decisions on data, no IO."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.cluster.objects import Ref
from reconciler.timings import PodTimings


@dataclass(frozen=True, slots=True)
class UnliftedGates:
    """Gates of one gang that cannot be lifted: since when, when they are tried again, and why."""

    since: float
    retry_at: float
    message: str


@dataclass(slots=True)
class GateMemory:
    """unlifted: by the Ref.key of their job. due_at: when gates that the server refused are tried again.
    doubtful_starts: gang -> the pods whose gates were to be lifted, where none is known to be."""

    timings: PodTimings = field(default_factory=PodTimings)
    unlifted: dict[str, UnliftedGates] = field(default_factory=dict)
    due_at: float = 0.0
    doubtful_starts: dict[str, tuple[Ref, ...]] = field(default_factory=dict)

    def record_troubles(self, troubles: Mapping[str, str], prompt: Collection[str], now: float) -> None:
        """Note which gangs have gates that could not be lifted now, with why; of all others they could, or need not.

        They are tried again after as long as that goes on, and `longest_gate_pause` at most; those in `prompt`, which
        wait for an answer or another plan, in each pass.
        """
        found = {key: known for key, known in self.unlifted.items() if now < known.retry_at}
        for key, message in troubles.items():
            since = self.unlifted[key].since if key in self.unlifted else now
            pause = 0.0 if key in prompt else min(now - since, self.timings.longest_gate_pause)
            found[key] = UnliftedGates(since, now + pause, message)
        self.unlifted = found

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

    def take_failed_starts(self, is_open: Callable[[Ref], bool]) -> list[str]:
        """The gangs of which no gate was lifted, and none is under way any more; each once."""
        failed = [gang for gang, pods in self.doubtful_starts.items() if not any(map(is_open, pods))]
        for gang in failed:
            del self.doubtful_starts[gang]
        return failed

    def believe_starts(self) -> None:
        """Count what the inventory has as started as started: another replica may have lifted gates meanwhile."""
        self.doubtful_starts.clear()

    def deadlines(self) -> list[float]:
        """When gates that were not lifted are tried again."""
        return [self.due_at, *(known.retry_at for known in self.unlifted.values())]
