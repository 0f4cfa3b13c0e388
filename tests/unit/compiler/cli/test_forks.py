"""Work shared out to forks comes to what one process comes to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from compiler.cli import forks
from compiler.cli.compile import write_in_parallel
from compiler.cli.forks import in_forks
from compiler.diagnostics.diagnostic import Diagnostic
from compiler.emit import waves
from compiler.emit.rewrite import rewrite
from compiler.emit.waves import ManifestSource, manifest_texts
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.syntax.documents import Document

CLUSTER = b"apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: t}\nspec: {binding: gated}\n"
QUEUE = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: q{}}}\nspec: {{weight: 1}}\n"


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    queues = "---\n".join(QUEUE.format(number) for number in range(forks.LEAST_ITEMS + 1))
    files = {"cluster-specs/t/cluster.yaml": CLUSTER, "cluster-specs/t/queues.yaml": queues.encode()}
    return compile_repository(Repository(files))


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})


def test_each_share_is_done_in_a_process_of_its_own() -> None:
    own, answers = in_forks(3, lambda number: (number, os.getpid()), os.getpid)
    assert [number for number, _ in answers] == [1, 2]
    assert len({own, *(process for _, process in answers)}) == 3


def test_a_share_that_fails_is_left_out() -> None:
    assert in_forks(3, lambda number: 1 // (number - 1), lambda: "own") == ("own", [1])


@pytest.mark.usefixtures("two_cores")
def test_manifests_are_written_as_by_one_process(outcome: Outcome) -> None:
    alone, known = manifest_texts(outcome), dict[int, str]()

    def ahead(made: Sequence[ManifestSource]) -> Mapping[int, str]:
        known.update(write_in_parallel(made))
        return known

    assert manifest_texts(outcome, ahead=ahead) == alone
    assert sorted(known) == list(range(len(alone)))
    assert len(alone) > forks.LEAST_ITEMS


@pytest.mark.usefixtures("two_cores")
def test_a_manifest_that_cannot_be_written_is_told_of_once(outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = list[Diagnostic]()

    def failing(document: Document, target: Mapping[str, Any]) -> str:
        if target["metadata"]["name"] in ("q7", "q8"):
            raise RuntimeError("no text")
        return rewrite(document, target)

    whole = len(manifest_texts(outcome))
    monkeypatch.setattr(waves, "rewrite", failing)
    assert len(manifest_texts(outcome, errors.append, write_in_parallel)) == whole - 2
    assert [error.object for error in errors] == ["Queue q7", "Queue q8"]
