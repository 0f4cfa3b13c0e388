"""The commands as people call them: what goes to stdout and stderr, and the exit codes."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import compiler.reading
from compiler.cli import executor, forks
from compiler.cli.root import cli
from compiler.repository.tree import Repository
from solver import solve
from solver.mip.executors import LOCAL_EXECUTOR, Mapper

ROOT = Path(__file__).parents[4]
CASES = ROOT / "tests/golden"


def run(*arguments: str, obj: object = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), obj=obj)


def repo(case: str) -> tuple[str, str]:
    return "--repo", str(CASES / case / "repo")


def test_no_garbage_is_looked_for_in_what_is_imported_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took a tenth of a plan that has two seconds."""
    seen: list[bool] = []
    read = compiler.reading.read_specs

    def noted(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        seen.append(gc.isenabled())
        return function(*arguments, **named)

    monkeypatch.setattr(compiler.reading, "read_specs", partial(noted, read))
    monkeypatch.setattr("compiler.pipeline.solve", partial(noted, solve))
    assert run("plan", *repo("deadlock")).exit_code == 0
    assert [*seen, gc.isenabled()] == [False, True, True]
    gc.unfreeze()


def test_plan_says_what_starts_and_what_waits() -> None:
    result = run("plan", *repo("deadlock"))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.replace("\n\n", "\n").splitlines()[1:5] == [
        "Starts: 1 job, 4 pods",
        "  + team/first  4 worker  4 GPU  gpu-0 to 3 (4 nodes)",
        "Waits: 1 job",
        "  - team/second  4 worker, 4 GPU, queue default",
    ]
    assert "\033[" not in result.stdout


@pytest.mark.parametrize(("case", "code"), [("deadlock", 2), ("empty", 0)])
def test_detailed_exitcode_tells_changes_from_none(case: str, code: int) -> None:
    assert run("plan", *repo(case), "--detailed-exitcode").exit_code == code
    assert run("plan", *repo(case)).exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "--bogus"),
        ("plan", "--repo", "/nowhere"),
        ("bogus",),
        ("explain", *repo("deadlock"), "nobody"),
        ("plan", *repo("deadlock"), "--cluster", "other"),
        ("plan", *repo("deadlock"), "--state", "/nowhere"),
    ],
)
def test_mistakes_of_the_user_exit_with_1_and_no_traceback(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "Error" in result.stderr or "error" in result.stderr


@pytest.mark.parametrize(
    "text", ["", "{", "a: [", "kind: List", "items: [1]", "items: [{kind: Pod, metadata: {}}]", "\xff"]
)
def test_a_state_that_is_none_is_explained(text: str, tmp_path: Path) -> None:
    state = tmp_path / "state.yaml"
    state.write_bytes(text.encode("latin-1"))
    result = run("plan", *repo("deadlock"), "--state", str(state))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {state}: ")


def test_a_bad_job_takes_no_good_one_down_but_the_exit_code_tells(tmp_path: Path) -> None:
    source = CASES / "deadlock/repo"
    for path in source.rglob("*.yaml"):
        target = tmp_path / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            path.read_text().replace("queue: default", "queue: nope") if path.name == "first.yaml" else path.read_text()
        )
    result = run("plan", "--repo", str(tmp_path), "--detailed-exitcode")
    assert result.exit_code == 1
    assert "jobs/first.yaml:8:" in result.stderr
    assert "+ team/second" in result.stdout


def test_machines_get_the_same_plan_as_json_and_yaml() -> None:
    from ruamel.yaml import YAML

    said = json.loads(run("plan", *repo("running"), "--state", str(CASES / "running/state.yaml"), "-o", "json").stdout)
    assert (
        YAML(typ="safe").load(
            run("plan", *repo("running"), "--state", str(CASES / "running/state.yaml"), "-o", "yaml").stdout
        )
        == said
    )
    assert {gang["name"]: gang["decision"] for gang in said["gangs"]} == {
        "elastic": "keep",
        "kept": "keep",
        "next": "wait",
        "over": "done",
    }
    assert [batch["seconds"] for batch in said["batches"]] == [None]


def test_timings_are_shown_only_when_asked_for() -> None:
    timed = json.loads(run("plan", *repo("deadlock"), "-o", "json", "--timings").stdout)
    assert timed["batches"][0]["seconds"] > 0
    assert run("plan", *repo("deadlock"), "--timings").stdout != run("plan", *repo("deadlock")).stdout


@pytest.mark.parametrize("job", ["too-wide", "team/too-wide"])
def test_explain_names_the_reason_the_place_and_the_queue(job: str) -> None:
    result = run("explain", *repo("hard-topology"), job)
    assert result.exit_code == 0
    assert result.stdout.startswith("Job team/too-wide can never start as written\n  jobs/too-wide.yaml:4\n")
    assert "GW104" in result.stdout
    assert "role worker (line 12): needs 5 pods of 8 cpu, 8 nvidia.com/gpu" in result.stdout


@pytest.mark.parametrize("job", ["job/too-wide", "jobs/too-wide.yaml"])
def test_explain_takes_a_job_as_kubectl_and_git_name_it(job: str) -> None:
    assert run("explain", *repo("hard-topology"), job).stdout.startswith("Job team/too-wide can never start")


def test_explain_takes_generate_name_where_it_is_that_of_one_job(tmp_path: Path) -> None:
    tree = Path(shutil.copytree(CASES / "hard-topology/repo", tmp_path / "copy"))
    wide = tree / "jobs/too-wide.yaml"
    wide.write_text(wide.read_text().replace("name: too-wide", "generateName: too-wide-", 1))
    for job in ("too-wide", "team/too-wide-"):
        assert run("explain", "--repo", str(tree), job).stdout.startswith("Job team/too-wide-")
    (tree / "jobs/twin.yaml").write_text(wide.read_text().replace("replicas: 5", "replicas: 6"))
    result = run("explain", "--repo", str(tree), "too-wide")
    assert "there is no job 'too-wide' in the plan; did you mean team/too-wide-" in result.stderr
    assert " or team/too-wide-" in result.stderr


def test_explain_takes_a_file_from_any_folder() -> None:
    path = CASES / "hard-topology/repo/jobs/too-wide.yaml"
    assert run("explain", *repo("hard-topology"), str(path)).stdout.startswith("Job team/too-wide can never start")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("GW104", "  needs <asked> in one domain of tier <tier>; even empty, <hypernode> holds the most:"),
        ("GR121", "  gangplan.dev/expected-duration of at most <written duration>"),
    ],
)
def test_explain_knows_the_codes_of_reasons_and_repairs(code: str, said: str) -> None:
    assert said in run("explain", code).stdout


def test_explain_says_the_findings_on_the_job_and_counts_the_rest(tmp_path: Path) -> None:
    tree = Path(shutil.copytree(CASES / "deadlock/repo", tmp_path / "copy"))
    for name in ("first", "second"):
        path = tree / f"jobs/{name}.yaml"
        path.write_text(path.read_text().replace("spec:", "  annotations: {gangplan.dev/typo: x}\nspec:", 1))
    said = run("explain", "--repo", str(tree), "first").stderr
    assert "jobs/first.yaml" in said
    assert "jobs/second.yaml" not in said
    assert said.endswith("1 other finding in the repository: see gangplan check\n")


def test_explain_for_machines_holds_the_numbers() -> None:
    (job,) = json.loads(run("explain", *repo("queue-limit"), "too-much", "-o", "json").stdout)["jobs"]
    (reason,) = [reason for reason in job["reasons"] if reason["code"] == "GW101"]
    assert (reason["queue"], reason["resource"], reason["asked"], reason["limit"], reason["never"]) == (
        "team-a",
        "nvidia.com/gpu",
        10,
        8,
        True,
    )


def test_compile_writes_waves_jobs_and_the_lock_and_removes_what_is_stale(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("compile", *repo("queue-limit"), "-o", str(out)).exit_code == 0
    first = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert first == {
        "0-foundation.yaml",
        "1-queues.yaml",
        "3-scheduler.yaml",
        "gangplan.lock",
        *(f"5-jobs/team/{name}.job.yaml" for name in ("ci", "dev", "elsewhere", "greedy", "too-much")),
    }
    (out / "5-jobs/team/notes.txt").write_text("mine")
    assert run("compile", *repo("deadlock"), "-o", str(out)).exit_code == 0
    second = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert second == {
        "gangplan.lock",
        "5-jobs/team/notes.txt",
        "5-jobs/team/first.job.yaml",
        "5-jobs/team/second.job.yaml",
    }


@pytest.mark.parametrize(
    "name", ["5-jobs/team/first.job.yaml", "5-jobs/team/second.job.yaml", "gangplan.lock/x", "gangplan.lock"]
)
def test_compile_touches_nothing_in_a_folder_that_is_not_its_own(name: str, tmp_path: Path) -> None:
    mine = tmp_path / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    result = run("compile", *repo("deadlock"), "-o", str(tmp_path))
    assert (result.exit_code, mine.read_text()) == (1, "mine")
    assert "is not gangplan's" in result.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]


def test_compile_leaves_alone_what_its_lock_does_not_list(tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside/notes.yaml").write_text("mine")
    assert run("compile", *repo("deadlock"), "-o", str(tmp_path / "beside")).exit_code == 0
    assert (tmp_path / "beside/notes.yaml").read_text() == "mine"


def test_compile_does_not_write_into_what_it_reads(tmp_path: Path) -> None:
    source = tmp_path / "repo"
    shutil.copytree(CASES / "deadlock/repo", source)
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    for folder in (source, source / "jobs", source / "jobs" / "out", source / "cluster-specs" / "test"):
        result = run("compile", "--repo", str(source), "--to", str(folder))
        assert result.exit_code == 1
        assert "is part of what is compiled" in result.stderr
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before
    assert run("compile", "--repo", str(source), "--to", str(source / "out")).exit_code == 0


def test_compile_makes_namespaces_when_asked_and_says_that_gated_pods_wait() -> None:
    result = run("compile", *repo("deadlock"), "--namespaces")
    assert result.stdout.startswith("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team\n---\n")
    assert "pods are gated: none starts before `gangplan reconcile`" in result.stderr
    assert "kind: Namespace" not in run("compile", *repo("deadlock")).stdout
    assert "pods are gated" not in run("compile", *repo("static")).stderr


def test_a_lock_is_the_former_plan(tmp_path: Path) -> None:
    assert run("compile", *repo("deadlock"), "--to", str(tmp_path)).exit_code == 0
    result = run("plan", *repo("deadlock"), "--lock", str(tmp_path / "gangplan.lock"))
    assert "Runs on: 1 job, 4 pods" in result.stdout
    assert "0 to start, 1 to keep, 1 to wait" in result.stdout
    (tmp_path / "gangplan.lock").write_text("kind: Lock")
    result = run("plan", *repo("deadlock"), "--lock", str(tmp_path / "gangplan.lock"))
    assert (result.exit_code, "it is not a gangplan.dev/v1alpha1 Lock" in result.stderr) == (1, True)


def test_a_plan_with_errors_fails_unless_told_otherwise_and_names_the_jobs_left_out(tmp_path: Path) -> None:
    shutil.copytree(CASES / "deadlock/repo", tmp_path, dirs_exist_ok=True)
    job = tmp_path / "jobs" / "second.yaml"
    job.write_text(job.read_text().replace("replicas: 4", "replicas: four"))
    result = run("plan", "--repo", str(tmp_path))
    assert result.exit_code == 1
    assert "Left out: 1 job with errors\n  ! team/second  jobs/second.yaml:" in result.stdout
    assert "1 left out for errors" in result.stdout
    assert run("plan", "--repo", str(tmp_path), "--fail-on", "no-plan").exit_code == 0
    assert run("plan", "--repo", str(tmp_path), "--fail-on", "no-plan", "--detailed-exitcode").exit_code == 2
    refused = run("plan", "--repo", str(tmp_path), "--fail-on", "never")
    assert (refused.exit_code, "'never' is now 'no-plan'" in refused.stderr) == (1, True)
    (left,) = json.loads(run("plan", "--repo", str(tmp_path), "-o", "json").stdout)["leftOut"]
    assert (left["namespace"], left["name"], left["diagnostics"][0]["code"]) == ("team", "second", "GP204")
    job.write_text("kind: [")
    assert "jobs/second.yaml:1 GP101" in run("plan", "--repo", str(tmp_path)).stdout


def test_a_plan_fails_for_what_the_level_names_and_worse(tmp_path: Path) -> None:
    shutil.copytree(CASES / "deadlock/repo", tmp_path, dirs_exist_ok=True)

    def exit_codes() -> list[int]:
        levels = ("error", "never-starts", "longer-waits")
        return [run("plan", "--repo", str(tmp_path), "--fail-on", level).exit_code for level in levels]

    assert exit_codes() == [0, 0, 0]
    job = tmp_path / "jobs" / "second.yaml"
    job.write_text(job.read_text().replace("gpu: 1", "gpu: 2"))
    assert exit_codes() == [0, 1, 1]


def test_filters_choose_jobs_of_the_text() -> None:
    assert "+ team/first" not in run("plan", *repo("deadlock"), "--decision", "wait").stdout
    assert "- team/second" not in run("plan", *repo("deadlock"), "--decision", "start").stdout
    other = run("plan", *repo("deadlock"), "--namespace", "other", "--queue", "defalt")
    assert "team/" not in other.stdout
    assert other.stderr == (
        "no job is in queue 'defalt': did you mean 'default'?\nno job is in namespace 'other': there is team\n"
    )
    assert "team/first" in run("plan", *repo("deadlock"), "--queue", "root").stdout
    assert "team/first" in run("plan", *repo("deadlock"), "--queue", "default", "--queue", "b").stdout
    assert run("plan", *repo("deadlock"), "--queue", "default", "-o", "json").exit_code == 1
    summary = run("plan", *repo("deadlock"), "--summary").stdout
    assert "Starts: 1 job, 4 pods\n\nWaits: 1 job, by their first reason and queue\n" in summary
    assert "+ team/first" not in summary


def test_many_waiting_jobs_are_told_by_reason(tmp_path: Path) -> None:
    shutil.copytree(CASES / "deadlock/repo", tmp_path, dirs_exist_ok=True)
    job = (tmp_path / "jobs" / "second.yaml").read_text()
    for number in range(60):
        (tmp_path / "jobs" / f"more-{number}.yaml").write_text(job.replace("name: second", f"name: more-{number}"))
    result = run("plan", "--repo", str(tmp_path)).stdout
    assert "Waits: 61 jobs, by their first reason" in result
    assert len(result.splitlines()) < 40
    assert run("plan", "--repo", str(tmp_path), "--decision", "wait").stdout.count("queue default") > 60


def test_the_commands_help_with_typing() -> None:
    assert "Did you mean 'plan'?" in run("pln").stderr
    assert "_GANGPLAN_COMPLETE" in run("completion", "bash").stdout


def test_the_tree_comes_from_a_higher_layer_when_it_has_one() -> None:
    def dated(path: Path) -> Repository:
        tree = Repository.from_directory(path)
        return Repository(tree.files, {"jobs/second.yaml": 1, "jobs/first.yaml": 2})

    assert "+ team/second" in run("plan", *repo("deadlock"), obj=dated).stdout


def test_help_does_not_import_the_solver() -> None:
    code = (
        "import sys; from compiler.cli.root import cli; cli(['-h'], standalone_mode=False); print(sorted(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "Explain why a job starts or waits" in said
    assert not {"pulp", "highspy", "numpy", "ruamel.yaml", "pydantic"} & set(said.split("'"))


def test_explain_tells_a_job_with_errors_from_one_that_does_not_exist(tmp_path: Path) -> None:
    for name in ("cluster-specs/test/cluster.yaml", "cluster-specs/test/gpu.yaml", "jobs/first.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(
            (CASES / "deadlock/repo" / name).read_text().replace("replicas: 4", "replicas: four")
        )
    result = run("explain", "--repo", str(tmp_path), "first")
    assert result.exit_code == 1
    assert (
        result.stderr.splitlines()[-1] == "Error: first has errors (see above) and is in no plan until they are fixed"
    )


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "5-jobs").write_text("a file in the way")
    result = run("compile", *repo("deadlock"), "-o", str(tmp_path))
    assert result.exit_code == 1
    assert "5-jobs" in result.stderr.splitlines()[-1]
    assert isinstance(result.exception, SystemExit)


def test_explain_says_why_a_job_is_not_planned_and_what_helps_in_general(tmp_path: Path) -> None:
    tree = Path(shutil.copytree(CASES / "deadlock/repo", tmp_path / "copy"))
    first = tree / "jobs/first.yaml"
    first.write_text(first.read_text().replace("schedulerName: volcano", "schedulerName: yunikorn"))
    answer = run("explain", "--repo", str(tree), "first").stdout
    assert "GW111  its pods name the scheduler yunikorn\n" in answer
    assert "  in general: Resume the job, or name Volcano as its scheduler.\n" in answer


def test_workers_are_forked_only_where_the_limit_leaves_them_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forked = []

    def opened(name: str, forks: bool) -> AbstractContextManager[Mapper]:
        forked.append(forks)
        return nullcontext(LOCAL_EXECUTOR)

    monkeypatch.setattr(executor, "open_executor", opened)
    shutil.copytree(repo("five-gangs")[1], tree := tmp_path / "repo")
    for number in range(forks.LEAST_ITEMS):
        (tree / "jobs" / f"more-{number}.yaml").touch()
    for limit in ([], ["--time-limit", "1.9"], ["--time-limit", "2"]):
        assert run("plan", "--repo", str(tree), *limit).exit_code == 0
    assert forked == [True, False, True]


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_time_limit_that_is_missed_is_said_in_one_line(output: str) -> None:
    def told(*limit: str) -> list[str]:
        done = run("plan", *repo("five-gangs"), "-o", output, *limit)
        assert done.exit_code == 0
        return [line for line in done.stderr.splitlines() if "time limit of" in line]

    (line,) = told("--time-limit", "0")
    assert line.startswith("the time limit of 0 s is missed: ")
    assert told("--time-limit", "600") == told() == []
