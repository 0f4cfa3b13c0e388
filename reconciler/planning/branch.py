"""The target of a pass: the head of the branch, unless its history was rewritten, and the plan in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class Branch:
    """The branch, its clone and the permission to rewrite it. annotations: of the ConfigMap `status_name`."""

    poller: GitPoller
    mirror: Mirror
    annotations: Callable[[], Mapping[str, str]]
    status_name: str

    @property
    def head(self) -> BranchHead:
        return self.poller.head

    def aim(self, in_force: str) -> Target:
        """Return the target for the commit in force, empty for none; with the cause if git cannot find it, or the head
        is held back."""
        head = self.head.commit
        if not head or not in_force or head == in_force:
            return Target(head or in_force)
        try:
            if self.mirror.is_ancestor(in_force, head) or self._may_rewrite_to(head):
                return Target(head)
        except GitError as error:
            return Target(in_force, problems=(str(error),))
        held = (
            f"{head} does not descend from {in_force}, which is in force; allow it with the annotation "
            f"{ALLOW_REWRITE_ANNOTATION}: {head} on ConfigMap {self.status_name}"
        )
        return Target(in_force, held)

    def may_follow(self, newer: str, older: str) -> bool:
        """Return whether one may go on from a commit that another replica has in force to this one."""
        try:
            if self.mirror.is_ancestor(older, newer):
                return True
        except GitError:
            pass
        return self._may_rewrite_to(newer)

    def read_tree(self, commit: str) -> Repository:
        """Return the files of a commit. Raises GitError."""
        head = self.head
        return head.tree if head.tree is not None and commit == head.commit else self.mirror.read_tree(commit)

    def _may_rewrite_to(self, commit: str) -> bool:
        return self.annotations().get(ALLOW_REWRITE_ANNOTATION) == commit
