"""Small repositories and exactly what must come out of them.

A case is a folder with `repo/`, perhaps `state.yaml`, and what is expected: plan.json, compile.yaml and gangplan.lock;
diagnostics.txt where there are any, plan.txt in the three cases with the longest text, and report.json, the data of the
page, in the two that evict and reserve. `pytest tests/golden --update` rewrites the expectations; look at the
difference before you commit it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random

import pytest
import yaml

from compiler.cli.reading_cache import ReadingCache
from compiler.cluster_state.cluster_state import load_state
from compiler.emit.lock import lock_text
from compiler.emit.waves import manifest_texts, stream_text
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository, compile_specs
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.views import data, machine, text
from compiler.views.report.page import report_document
from solver.verify import verify
from tests.builders.plans import greedy_gangs

HERE = Path(__file__).parent
TEXT_CASES = ("lending", "queue-limit", "reservation")
REPORT_CASES = ("preempt", "reservation")
CASES = sorted(path.name for path in HERE.iterdir() if (path / "repo").is_dir())


@cache
def compiled(case: str) -> Outcome:
    return compile_anew(case)


def compile_anew(case: str) -> Outcome:
    state = HERE / case / "state.yaml"
    return compile_repository(
        Repository.from_directory(HERE / case / "repo"),
        state=load_state(state.read_bytes()) if state.is_file() else None,
    )


def expected_files(case: str, outcome: Outcome) -> dict[str, str]:
    """File name -> content, for each file that the case's folder should hold beside its input."""
    found = {
        "plan.json": machine.to_json(data.plan_document(outcome)),
        "compile.yaml": stream_text(manifest_texts(outcome)),
        "gangplan.lock": lock_text(outcome),
    }
    if case in TEXT_CASES:
        found["plan.txt"] = text.plan_text(outcome)
    if case in REPORT_CASES:
        found["report.json"] = machine.to_json(report_document(outcome))
    if outcome.diagnostics:
        found["diagnostics.txt"] = "".join(
            f"{d.position.file}:{d.position.line}:{d.position.column}: {d.severity} {d.code}: {d.message}\n"
            for d in outcome.diagnostics
        )
    return found


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str, request: pytest.FixtureRequest) -> None:
    outcome = compiled(case)
    made = expected_files(case, outcome)
    assert outcome.ok
    assert outcome.problem is not None
    assert outcome.plan is not None
    assert verify(outcome.problem, outcome.plan) == []
    assert expected_files(case, compile_anew(case)) == made
    if request.config.getoption("--update", default=False):
        for name, content in made.items():
            (HERE / case / name).write_text(content)
    there = {file.name: file.read_text() for file in (HERE / case).iterdir() if file.is_file()}
    there.pop("state.yaml", None)
    assert made == there


@pytest.mark.parametrize("case", CASES)
def test_files_that_are_remembered_make_the_same_bytes(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("GANGPLAN_NO_CACHE", raising=False)
    tree, root = Repository.from_directory(HERE / case / "repo"), HERE / case
    state = load_state((root / "state.yaml").read_bytes()) if (root / "state.yaml").is_file() else None
    cache = ReadingCache(root)
    cache.save(tree, read_specs(tree, parse=cache.parse).diagnostics)
    cache = ReadingCache(root)
    assert len(cache.known) == len(tree.manifests())
    outcome = compile_specs(tree, read_specs(tree, parse=cache.parse), state)
    for name, content in expected_files(case, outcome).items():
        assert content == (root / name).read_text()


def test_the_bytes_do_not_depend_on_the_hash_seed() -> None:
    command = [sys.executable, "-c", "from compiler.cli.root import cli; cli()", "plan", "-o", "json"]
    case = HERE / "running"
    root = str(HERE.parents[1])
    outputs = {
        subprocess.run(
            [*command, "--repo", str(case / "repo"), "--state", str(case / "state.yaml")],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {(case / "plan.json").read_bytes()}


def reordered(files: Mapping[str, bytes], chance: Random) -> dict[str, bytes]:
    """The same documents in another order, in files of other names in the same folders."""
    folders: dict[str, list[bytes]] = {}
    for name, content in sorted(files.items()):
        folders.setdefault(name.rpartition("/")[0], []).extend(
            part for part in re.split(rb"(?m)^---[^\n]*\n", content) if part.strip()
        )
    found: dict[str, bytes] = {}
    for folder, documents in folders.items():
        chance.shuffle(documents)
        for document in documents:
            name = f"{folder}/{chance.choice('abc')}.yaml"
            found[name] = found.get(name, b"") + b"---\n" + document.rstrip(b"\n") + b"\n"
    return found


def apart_from_places(outcome: Outcome) -> object:
    """What the plan and the manifests say, but for which file and line it came from."""

    def stripped(said: object) -> object:
        if isinstance(said, dict):
            return {key: stripped(value) for key, value in said.items() if key not in ("from", "digest")}
        return [stripped(each) for each in said] if isinstance(said, list) else said

    diagnostics = sorted((diagnostic.code, diagnostic.message) for diagnostic in outcome.diagnostics)
    return stripped(data.plan_document(outcome)), sorted(text for _, text in manifest_texts(outcome)), diagnostics


@pytest.mark.parametrize("case", CASES)
def test_it_does_not_matter_in_which_files_and_in_which_order_things_are_said(case: str) -> None:
    chance, state = Random(case), HERE / case / "state.yaml"  # noqa: S311  - not a secret
    tree = Repository.from_directory(HERE / case / "repo")
    shuffled = None
    if state.is_file():
        items = yaml.load(state.read_bytes(), yaml.CSafeLoader)
        chance.shuffle(items["items"])
        shuffled = load_state(yaml.dump(items, Dumper=yaml.CSafeDumper).encode())
    again = compile_repository(Repository(reordered(tree.files, chance)), state=shuffled)
    assert apart_from_places(again) == apart_from_places(compiled(case))


def test_one_of_two_gangs_on_four_gpus_starts_whole_and_the_other_waits_whole() -> None:
    """Use case 3: the default scheduler gives each two GPUs, and both wait for ever."""
    first, second = compiled("deadlock").decisions
    assert (first.action, first.pod_count) == ("start", 4)
    assert (second.action, second.pods) == ("wait", {})
    assert [reason.code for reason in second.reasons] == ["GW105"]
    assert second.reasons[0].facts["gangs"] == ("team/first",)


def test_the_urgent_gang_takes_the_nodes_that_cost_the_least_run_time() -> None:
    """protected says volcano.sh/preemptable "false", nas-trial-2 has run for six hours, and nightly's class never
    preempts."""
    found = {decided.name.removeprefix("vision/"): decided for decided in compiled("preempt").decisions}
    assert {name: decided.action for name, decided in found.items()} == {
        "nas-trial-1": "evict",
        "nas-trial-2": "keep",
        "nightly": "wait",
        "protected": "keep",
        "release": "start",
        "sweep": "evict",
    }
    assert found["sweep"].evicted_for == ("vision/release",)


@pytest.mark.parametrize(
    ("case", "greedy_starts", "model_starts"),
    [
        ("better-by-packing", {"narrow"}, {"narrow", "wide"}),
        ("better-by-queues", {"speech-large"}, {"speech-small", "vision-only"}),
        ("better-by-sizes", {"fives"}, {"fours-1", "fours-2"}),
        ("better-by-topology", {"a-triple", "b-triple"}, {"a-triple", "c-pair", "d-pair"}),
    ],
)
def test_the_model_starts_better_gangs_than_the_greedy(
    case: str, greedy_starts: set[str], model_starts: set[str]
) -> None:
    """The case's cluster-specs/ says why they are better."""
    outcome = compiled(case)
    problem, plan = outcome.problem, outcome.plan
    assert problem is not None
    assert plan is not None
    assert {problem.gangs[j].name for j in greedy_gangs(problem)} == {f"team/{name}" for name in greedy_starts}
    assert {decided.name for decided in outcome.decisions if decided.action == "start"} == {
        f"team/{name}" for name in model_starts
    }
    assert {objective.verdict for batch in plan.batches for objective in batch.objectives} == {"proven"}


def test_pods_apart_together_and_even() -> None:
    """A server on each node, workers even over the zones, readers in the zone of the cache that runs; five servers do
    not fit four nodes."""
    found = {decided.name.removeprefix("team/"): decided for decided in compiled("neighbours").decisions}
    assert {name: decided.action for name, decided in found.items()} == {
        "readers": "start",
        "servers": "start",
        "surplus": "wait",
        "workers": "start",
    }
    assert set(found["servers"].pods["ps"].values()) == {1}
    zones = Counter({node[0]: 0 for node in found["workers"].pods["worker"]})
    for node, pods in found["workers"].pods["worker"].items():
        zones[node[0]] += pods
    assert zones == {"a": 3, "b": 3}
    assert {node[0] for node in found["readers"].pods["reader"]} == {"b"}
    assert [(reason.code, reason.never) for reason in found["surplus"].reasons] == [("GW117", True)]
