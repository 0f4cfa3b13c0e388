"""The plan for one gang, and which run of each job is due: values that the parts share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compiler.emit.manifest import Manifest
from compiler.fields.texts import whole_number
from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of
from compiler.run_kinds import RUN_KINDS
from reconciler.changes.managed_fields import is_annotation_overwritten
from reconciler.cluster.objects import Object, Ref, ref_of

if TYPE_CHECKING:
    from compiler.outputs import StartWindowEntry


@dataclass(frozen=True, slots=True)
class PlannedGang:
    """A job as planned.

    pods: role -> node name -> pods, roles in the job's order. dependent_roles: whose pods appear only after other roles
    run. evicted_for: the jobs ("namespace/name") for which pods beyond `pods` have to go. device_numbers: role -> node
    -> the cards on which its new pods fit, the highest first. starts_at: of a waiting job with reserved room.
    start_window: in which a waiting job is expected to start. has_helpers: its controller may run pods without a role.
    held: it waits, and is not created. written_pods: role -> pods, of a service that may have more. bound: whether the
    plan binds its pods. succeeded_pods: role -> pods that succeeded, not among `pods`.
    """

    job: Ref
    decision: str
    pods: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    queue: str = ""
    domains: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    dependent_roles: frozenset[str] = frozenset()
    evicted_for: tuple[str, ...] = ()
    device_numbers: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    starts_at: str | None = None
    start_window: StartWindowEntry | None = None
    has_helpers: bool = False
    held: bool = False
    written_pods: Mapping[str, int] = field(default_factory=dict)
    bound: bool = True
    succeeded_pods: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.job.namespace}/{self.job.name}"

    def pods_by_node(self) -> dict[str, int]:
        found = Counter[str]()
        for by_node in self.pods.values():
            found.update(by_node)
        return dict(found)

    def pods_by_place(self) -> dict[tuple[str, str], int]:
        """(Role, node name) -> pods."""
        return {(role, node): pods for role, by_node in self.pods.items() for node, pods in by_node.items()}


@dataclass(frozen=True, slots=True)
class PlannedRuns:
    """jobs: Ref.key -> manifest of each job of the plan in force. reruns: Ref.key of a job -> the digest that an
    operator wants to run again, and the number of that run. over: Ref.key of a job -> the last run that is over."""

    jobs: Mapping[str, Manifest] = field(default_factory=dict)
    reruns: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    over: Mapping[str, str] = field(default_factory=dict)

    def is_job(self, key: str) -> bool:
        """Return whether the object of this Ref.key runs once: by its kind, or as the plan in force has it."""
        return key.partition("/")[0] in RUN_KINDS or key in self.jobs

    def of(self, key: str, default: str = "") -> str:
        """Return the digest of the job's run in the plan in force, with its number; `default` where it has none."""
        manifest = self.jobs.get(key)
        return self.numbered(key, manifest.run_digest) if manifest else default

    def digest_of(self, job: Object) -> str:
        """Return the digest of the run that a live job was made from; of the planned one where others overwrote it."""
        written = annotations_of(job).get(DIGEST_ANNOTATION)
        if written and not is_annotation_overwritten(job, DIGEST_ANNOTATION):
            return written
        return self.of(ref_of(job).key)

    def numbered(self, key: str, digest: str) -> str:
        """Return the digest with the number of the due run: the operator's number, and never less than a finished
        run's."""
        wanted, number = self.reruns.get(key, ("", 1))
        if wanted != digest:
            number = 1
        if key in self.over:
            over, last = split_run(self.over[key])
            number = max(number, last) if over == digest else number
        return f"{digest}#{number}" if number > 1 else digest


def split_run(name: str) -> tuple[str, int]:
    """Return the digest of a run and its number: sha256:...#2 is the second of the same specification."""
    digest, _, number = name.partition("#")
    found = whole_number(number)
    return digest, 1 if found is None else found
