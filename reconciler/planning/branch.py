"""The target of a pass: the head of the branch, unless its history was rewritten, and the plan in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from compiler.kubernetes import ALLOW_REWRITE_ANNOTATION
from compiler.repository.tree import Repository
from reconciler.changes.planned import PlannedRuns
from reconciler.git.mirror import BranchHead, GitPoller, Mirror
from reconciler.git.process import GitError
from reconciler.planning.fingerprint import Fingerprint
from reconciler.planning.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Target:
    """snapshot: the plan in force, None for none. fingerprint, base: its inputs now, and when it was made. is_fresh:
    whether it is of the target commit and its inputs are unchanged. rewrite_message: why a head that does not descend
    from the commit in force is held back."""

    commit: str = ""
    rewrite_message: str = ""
    snapshot: Snapshot | None = None
    fingerprint: Fingerprint | None = None
    base: Fingerprint | None = None
    is_fresh: bool = False
    runs: PlannedRuns = field(default_factory=PlannedRuns)
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class Branch:
    """The branch, its clone and the permission to rewrite it: an annotation that names the head to follow, and is
    removed after its use. annotations: of the ConfigMap `status_name`. remove_annotation: unless its value stays;
    returns whether that is done."""

    poller: GitPoller
    mirror: Mirror
    annotations: Callable[[], Mapping[str, str]]
    remove_annotation: Callable[[str, Callable[[str], bool]], bool]
    status_name: str
    _settled_for: str = ""
    _asked_since: float = -inf
    _is_stale: bool = False

    @property
    def head(self) -> BranchHead:
        return self.poller.head_now()

    def aim(self, in_force: str, others_led_until: float) -> Target:
        """Return the target for the commit in force, empty for none; with the cause if git cannot find it, or the head
        is held back.

        others_led_until: on the monotonic clock. A head that was fetched before may be older than what another replica
        followed, as where the branch was set back since: it is fetched again first.
        """
        head = self.head.commit
        is_decided = not head or not in_force or head == in_force
        self._is_stale = not is_decided and self.poller.fetched_at < others_led_until
        if is_decided:
            return Target(head or in_force)
        if self._is_stale:
            if self._asked_since != others_led_until:
                self.poller.poke()
            self._asked_since = others_led_until
            return Target(in_force)
        try:
            if self.mirror.is_ancestor(in_force, head) or self._may_rewrite(head):
                return Target(head)
        except GitError as error:
            return Target(in_force, problems=(str(error),))
        held = (
            f"{head} does not descend from {in_force}, which is in force; allow it with the annotation "
            f"{ALLOW_REWRITE_ANNOTATION}: {head} on ConfigMap {self.status_name}"
        )
        return Target(in_force, held)

    @property
    def awaits_fetch(self) -> bool:
        """Return whether the head is to be fetched again before it is followed, and git has not failed to."""
        return self._is_stale and not self.head.problem

    def settle_permission(self, in_force: str) -> None:
        """Remove a permission that was used, with one look for each commit in force: one that waits for a later force
        push back to its commit would let it pass. After a restart it may be for a head that is held."""
        if in_force == self._settled_for:
            return
        may_be_held = not self._settled_for
        if self.remove_annotation(ALLOW_REWRITE_ANNOTATION, lambda value: may_be_held and value != in_force):
            self._settled_for = in_force

    def read_tree(self, commit: str) -> Repository:
        """Return the files of a commit. Raises GitError."""
        head = self.head
        return head.tree if head.tree is not None and commit == head.commit else self.mirror.read_tree(commit)

    def _may_rewrite(self, head: str) -> bool:
        return self.annotations().get(ALLOW_REWRITE_ANNOTATION) == head
