"""Both verdicts on an object: gangplan's check of a repository that holds it, and a dry run on the real API server."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from tests.builders.beside import beside
from tests.controlplane import ApiError, ControlPlane
from tests.differential.admission.objects import RESOURCES, Object

FILE = "jobs/it.yaml"
SURROUNDINGS: tuple[tuple[str, Object], ...] = beside(__file__)["surroundings"]
"""What is there before, in the repository and in the cluster."""
_CLUSTER = {
    "apiVersion": "gangplan.dev/v1alpha1",
    "kind": "Cluster",
    "metadata": {"name": "c"},
    "spec": {"allowPrivileged": False},
}


@dataclass(frozen=True, slots=True)
class Case:
    """An object of a kind and what was changed in it; text: how it is written."""

    kind: str
    change: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """errors: of check. refusal: what the API server says, empty if it takes the object."""

    case: Case
    errors: tuple[Diagnostic, ...]
    refusal: str

    @property
    def is_miss(self) -> bool:
        return bool(self.refusal) and not self.errors

    @property
    def is_false_alarm(self) -> bool:
        return bool(self.errors) and not self.refusal

    def __str__(self) -> str:
        said = "; ".join(f"{each.code} {each.message}" for each in self.errors) or "nothing"
        return f"{self.case.kind}, {self.case.change}\n  check: {said}\n  server: {self.refusal or 'takes it'}"


def check_errors(text: str) -> tuple[Diagnostic, ...]:
    """The errors of check in the object's file."""
    around = "\n---\n".join(json.dumps(each) for each in (_CLUSTER, *(found for _, found in SURROUNDINGS)))
    files = {"cluster-specs/c/all.yaml": around.encode(), FILE: text.encode()}
    found = read_specs(Repository(files)).diagnostics
    return tuple(each for each in found if each.severity == "error" and each.position.file == FILE)


class Oracle:
    """The API server of a control plane, asked by several threads."""

    def __init__(self, plane: ControlPlane) -> None:
        self._api = plane.api
        for kind, found in SURROUNDINGS:
            try:
                self._api("POST", RESOURCES[kind].url(), found)
            except ApiError as error:
                if error.status != 409:
                    raise
        queues = [found["metadata"]["name"] for kind, found in SURROUNDINGS if kind.startswith("Queue.")]
        plane.wait_until(lambda: all(map(self._is_open, queues)), what="open queues")

    def _is_open(self, queue: str) -> bool:
        found = self._api("GET", f"{RESOURCES['Queue.scheduling.volcano.sh'].url()}/{queue}")
        return bool(found.get("status", {}).get("state") == "Open")

    def close(self) -> None:
        """Remove what was put next to the objects."""
        for kind, found in SURROUNDINGS:
            self._api("DELETE", f"{RESOURCES[kind].url()}/{found['metadata']['name']}")

    def refusal(self, case: Case) -> str:
        """What the server says to a strict dry run; empty if it takes the object."""
        url = f"{RESOURCES[case.kind].url()}?dryRun=All&fieldValidation=Strict"
        try:
            self._api("POST", url, case.text, "application/yaml")
        except ApiError as error:
            if error.status >= 500 and "Internal error occurred" not in str(error):  # what webhooks cannot digest
                raise
            return str(error).partition(": ")[2]
        return ""

    def verdicts(self, cases: Sequence[Case], threads: int = 6) -> list[Verdict]:
        """Both verdicts on each case; check runs while the server answers."""
        with ThreadPoolExecutor(threads) as pool:
            said = [pool.submit(self.refusal, case) for case in cases]
            errors = [check_errors(case.text) for case in cases]
            return [
                Verdict(case, found, answer.result()) for case, found, answer in zip(cases, errors, said, strict=True)
            ]


def confusion(verdicts: Sequence[Verdict]) -> Counter[str]:
    """How often both agree and how often not."""
    return Counter(
        "miss" if each.is_miss else "false alarm" if each.is_false_alarm else "refused" if each.errors else "taken"
        for each in verdicts
    )


_UNREAD_TEMPLATES = ("PyTorchJob.", "CronJob.batch.volcano.sh", "JobTemplate.", "JobFlow.")
"""Kinds whose pods no webhook looks at: what is wrong with them shows when their controllers make pods."""
_EARLIER_CODES = frozenset(("GP320", "GP351", "GP354", "GP368", "GP378"))
_EARLIER_CHANGES = """
    gate and nodeName|blank around image|medium unknown|volume claim empty|labelMatch bad operator|tier 0|negative|
    replica type lower|null|no selector|matchLabelKeys twice|hard device|float quantity
"""
_LEFT_TO_THE_SERVER = """
    overhead|runtimeClass|namespace|resourceClaims
"""


def is_meant(verdict: Verdict) -> bool:
    """Whether docs/reference/admission.md tells this difference."""
    if verdict.is_false_alarm:
        unread = verdict.case.kind.startswith(_UNREAD_TEMPLATES)
        codes = {each.code for each in verdict.errors}
        return unread or codes <= _EARLIER_CODES or _is_one_of(verdict.case.change, _EARLIER_CHANGES)
    if verdict.is_miss:
        what = f"{verdict.case.change} {verdict.refusal}"
        return _is_one_of(what, _LEFT_TO_THE_SERVER)
    return False


def _is_one_of(text: str, parts: str) -> bool:
    return any(part.strip() in text for part in parts.split("|"))
