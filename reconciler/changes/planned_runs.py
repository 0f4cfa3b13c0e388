"""Which run of each job is to be now: a value that the parts share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.emit.manifest import Manifest
from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of
from compiler.run_kinds import RUN_KINDS
from reconciler.changes.managed_fields import is_annotation_overwritten
from reconciler.cluster.objects import Object, ref_of


@dataclass(frozen=True, slots=True)
class PlannedRuns:
    """jobs: Ref.key -> manifest of each job of the plan in force. reruns: Ref.key of a job -> the digest that an
    operator wants to run again, and the number of that run. over: Ref.key of a job -> the last run that is over."""

    jobs: Mapping[str, Manifest] = field(default_factory=dict)
    reruns: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    over: Mapping[str, str] = field(default_factory=dict)

    def is_job(self, key: str) -> bool:
        """Whether the object of this Ref.key runs once: by its kind, or as the plan in force has it."""
        return key.partition("/")[0] in RUN_KINDS or key in self.jobs

    def of(self, key: str, default: str = "") -> str:
        """The digest of the job's run in the plan in force, with its number; `default` where it has none."""
        manifest = self.jobs.get(key)
        return self.numbered(key, manifest.run_digest) if manifest else default

    def digest_of(self, job: Object) -> str:
        """The digest of the run that a live job was made from; of the planned one where others overwrote it."""
        written = annotations_of(job).get(DIGEST_ANNOTATION)
        if written and not is_annotation_overwritten(job, DIGEST_ANNOTATION):
            return written
        return self.of(ref_of(job).key)

    def numbered(self, key: str, digest: str) -> str:
        """The digest with the number of the run that is due: the operator's, and never less than what is over."""
        wanted, number = self.reruns.get(key, ("", 1))
        if wanted != digest:
            number = 1
        if key in self.over:
            over, last = split_run(self.over[key])
            number = max(number, last) if over == digest else number
        return f"{digest}#{number}" if number > 1 else digest


def split_run(name: str) -> tuple[str, int]:
    """The digest of a run and its number: sha256:...#2 is the second of the same specification."""
    digest, _, number = name.partition("#")
    return digest, int(number) if number.isdigit() else 1
