"""An exception on one document is that document's error, wherever it is raised: the rest goes on."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compiler.cli.root import cli
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from reconciler.cli import load_tree
from reconciler.planning.compile.process import CompileRequest, compile_request
from tests.builders.depth import sample
from tests.builders.injected_faults import CHECKS, EMITTING, ERRORS, KINDS, LOWERING, READING, Faults
from tests.builders.manifests import cluster_manifests, job_manifests, repository_files
from tests.builders.mutations import mutated
from tests.e2e.stories.story import GitRepository

FILES = repository_files()
Found = set[tuple[str, str, str]]
"""(code, file, message)"""
NOT_COMPARED = ("GP222", "GP354", "GP357", "GP396", "GP5")
"""Codes, or beginnings of codes, of what follows from an object with an error, by its name (GP354) or since the plan is
another (GP5xx), of what is reported once a repository (GP357), and of what is not said of a job that is not planned
(GP222) or next to nodes with errors (GP396)."""
OF_CLUSTER = (*NOT_COMPARED, "GP213")
"""The same where a Cluster has an error: the kinds that it declares are not known then."""
LINE = re.compile(r"^(\S+?):\d+:\d+: (?:error|warning|info) (GP\d+): (.*)$", re.MULTILINE)


class Commands:
    """What each command finds in the repository."""

    def __init__(self, folder: Path) -> None:
        self.repository = GitRepository(folder)
        self.repository.write_file("cluster-specs/t/none.yaml", "# nothing yet\n")
        self.repository.commit()
        for name, content in FILES.items():
            self.repository.write_file(name, content.decode())
        self.by_name: dict[str, Callable[[], tuple[int, Found]]] = {
            "check": self.check,
            "plan": self.plan,
            "diff": self.diff,
            "compile": self.compile,
            "reconciler": self.reconciler,
        }

    def _run(self, *arguments: str) -> Any:
        words = [*arguments, "--repo", str(self.repository.folder)]
        done = CliRunner().invoke(cli, words, obj=load_tree, env={"GANGPLAN_NO_CACHE": "1"})
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert "Traceback" not in done.output
        return done

    def check(self) -> tuple[int, Found]:
        done = self._run("check", "--format", "json")
        return done.exit_code, _entries(json.loads(done.stdout)["diagnostics"])

    def plan(self) -> tuple[int, Found]:
        done = self._run("plan", "--executor", "local")
        return done.exit_code, {(code, file, text) for file, code, text in LINE.findall(done.stderr)}

    def diff(self) -> tuple[int, Found]:
        done = self._run("diff", "HEAD", "-o", "json", "--executor", "local")
        (cluster,) = json.loads(done.stdout)["clusters"]
        return done.exit_code, _entries([*cluster["errors"], *cluster["findings"]["new"]])

    def compile(self) -> tuple[int, Found]:
        done = self._run("compile", "--executor", "local")
        return done.exit_code, {(code, file, text) for file, code, text in LINE.findall(done.stderr)}

    def reconciler(self) -> tuple[int, Found]:
        snapshot = compile_request(CompileRequest("c0ffee", "t", FILES, {}))
        return int(not snapshot.ok), _entries(snapshot.diagnostics)


def _entries(found: Any) -> Found:
    return {(each["code"], each.get("file") or each["position"]["file"], each["message"]) for each in found}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    return Commands(tmp_path_factory.mktemp("repository") / "repo")


@pytest.fixture(scope="module")
def faults() -> Iterator[Faults]:
    found = Faults()
    with pytest.MonkeyPatch.context() as patch:
        found.inject(patch)
        yield found


@pytest.fixture(scope="module")
def before(commands: Commands, faults: Faults) -> dict[str, Found]:
    """What each command finds while nothing fails."""
    found = {}
    for name, run in commands.by_name.items():
        code, found[name] = run()
        assert (code, [each for each in found[name] if each[0] == "GP139"]) == (0, []), name
    return found


def _commands_at(point: str) -> tuple[str, ...]:
    if point in EMITTING:
        return "compile", "reconciler"
    return ("plan", "diff", "reconciler") if point in LOWERING else ("check", "plan", "diff", "reconciler")


def _of_others(found: Found, files: frozenset[str]) -> Found:
    left_out = OF_CLUSTER if any("gangplan.dev-cluster-" in file for file in files) else NOT_COMPARED
    return {each for each in found if each[1] not in files and not each[0].startswith(left_out)}


POINTS = (*READING, *LOWERING, *EMITTING, *(CHECKS for _ in range(sample(8))), *(KINDS for _ in range(sample(8))))
"""Of checks and kinds some are chosen at random; each is tried in two of the commands that get there."""


@pytest.mark.parametrize(("at", "point"), list(enumerate(POINTS)))
def test_a_document_on_which_something_fails_is_named_and_the_rest_goes_on(
    at: int, point: str, commands: Commands, faults: Faults, before: dict[str, Found]
) -> None:
    chooser = random.Random(at)  # noqa: S311
    if point in (CHECKS, KINDS):
        point = chooser.choice(sorted(each for each in faults.seen if each.startswith(point)))
    reachable = sorted(faults.seen[point])
    files = frozenset(chooser.sample(reachable, min(len(reachable), chooser.choice((1, 2)))))
    for name in chooser.sample(_commands_at(point), 2):
        with faults.at(point, files, chooser.choice(ERRORS)):
            code, found = commands.by_name[name]()
        assert code == 1, name
        assert {file for rule, file, _ in found if rule == "GP139"} == files == faults.raised, (name, point)
        assert _of_others(found, files) == _of_others(before[name], files), (name, point)


def test_each_point_meets_documents(faults: Faults, before: dict[str, Found]) -> None:
    assert {*READING, *LOWERING, *EMITTING} <= faults.seen.keys()


@pytest.mark.parametrize("seed", range(sample(12)))
def test_no_mutation_of_a_manifest_ends_in_an_exception(seed: int) -> None:
    chooser = random.Random(seed)  # noqa: S311
    changed = [mutated(each, chooser) for each in job_manifests()]
    changed += [mutated(each, chooser) for each in cluster_manifests() if chooser.random() < 0.2]
    outcome = compile_repository(Repository(repository_files(*changed)))
    assert [each for each in outcome.diagnostics if each.code == "GP139"] == []


def test_a_number_as_text_is_an_error_of_its_field(commands: Commands) -> None:
    """RayJob of a public repository, with `maxReplicas: $MAX_WORKERS`."""
    (job,) = (each for each in job_manifests() if each["kind"] == "RayJob")
    job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["maxReplicas"] = "$MAX_WORKERS"
    snapshot = compile_request(CompileRequest("c0ffee", "t", repository_files(job), {}))
    errors = [each for each in snapshot.diagnostics if each["severity"] == "error"]
    assert [(each["code"], each["file"]) for each in errors] == [("GP204", "jobs/ray.io-rayjob-m14.yaml")]
    assert "maxReplicas is the text '$MAX_WORKERS', not a whole number" in errors[0]["message"]
