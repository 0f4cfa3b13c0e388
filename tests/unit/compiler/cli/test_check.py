"""gangplan check, schema and init, as a user calls them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compiler.cli.root import cli
from compiler.kubernetes import (
    KNOWN_ANNOTATIONS,
    PLACEMENT_ANNOTATION,
    PROMISED_START_ANNOTATION,
    STARTS_AT_ANNOTATION,
    WAITING_ANNOTATION,
)
from compiler.views.schema import CLUSTER_ANNOTATIONS, JOB_ANNOTATIONS, OBJECT_ANNOTATIONS, QUEUE_ANNOTATIONS

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def _outside_of_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    assert run("init", tmp_path).exit_code == 0
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


def breach(repo: Path, old: str = "queue: research", new: str = "queue: reserch") -> None:
    job = repo / "jobs" / "research" / "pretrain.yaml"
    text = job.read_text()
    assert old in text
    job.write_text(text.replace(old, new))


def test_what_init_writes_has_no_problem_at_all(repo: Path) -> None:
    result = run("check", "--repo", repo, "--strict")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no problem found in 3 files\n")


def test_init_overwrites_nothing(repo: Path) -> None:
    breach(repo)
    before = {path: path.read_bytes() for path in repo.rglob("*.yaml")}
    result = run("init", repo)
    assert result.exit_code == 1
    assert "exists already; nothing was written" in result.stderr
    assert {path: path.read_bytes() for path in repo.rglob("*.yaml")} == before


def test_an_error_is_one_line_with_its_source_and_exit_code_1(repo: Path) -> None:
    breach(repo)
    result = run("check", "--repo", repo)
    assert result.exit_code == 1
    assert result.stdout == (
        "jobs/research/pretrain.yaml:10:3: error GP302: there is no queue 'reserch'. Fix: did you mean 'research'?\n"
        "    10 |   queue: reserch\n"
        "       |   ^\n"
    )
    assert result.stderr == "1 error in 3 files\n"


def test_warnings_fail_only_a_strict_check(repo: Path) -> None:
    breach(repo, "      spec:\n", "      spec:\n        nodeName: gpu-00\n")
    assert run("check", "--repo", repo).exit_code == 0
    assert run("check", "--repo", repo, "--strict").exit_code == 1


def test_a_kind_that_the_shipped_rights_do_not_cover_is_named_and_fails_no_check(repo: Path) -> None:
    """The reconciler holds its objects: that was only seen in the cluster."""
    foo = "apiVersion: example.org/v1\nkind: FooJob\nmetadata: {name: a}\n"
    (repo / "jobs" / "research" / "foo.yaml").write_text(f"{foo}---\n{foo.replace('name: a', 'name: b')}")
    result = run("check", "--repo", repo, "--strict")
    assert (result.exit_code, result.stdout.count("FooJob of example.org")) == (0, 1)
    assert "jobs/research/foo.yaml:2:1: info GP357" in result.stdout


def test_a_single_path_may_be_the_repository(repo: Path) -> None:
    breach(repo)
    assert run("check", repo).stdout == run("check", "--repo", repo).stdout


def test_paths_select_the_files_whose_problems_are_shown(repo: Path) -> None:
    breach(repo)
    assert run("check", "--repo", repo, repo / "cluster-specs").exit_code == 0
    assert run("check", "--repo", repo, repo / "jobs" / "research").exit_code == 1
    assert run("check", "--repo", repo, repo / "jobs" / "research" / "pretrain.yaml").exit_code == 1


@pytest.mark.parametrize("path", ["/", "nowhere.yaml"])
def test_paths_outside_the_repository_are_refused(repo: Path, path: str) -> None:
    result = run("check", "--repo", repo, path)
    assert result.exit_code == 1
    assert "Usage:" in result.stderr


def test_the_repository_is_found_from_any_folder(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    breach(repo)
    said = run("check", "--repo", repo).stdout
    monkeypatch.chdir(repo / "jobs" / "research")
    assert run("check").stdout == said
    assert run("check", "pretrain.yaml").stdout == said
    monkeypatch.chdir("/")
    assert run("check", repo / "jobs" / "research" / "pretrain.yaml").stdout == said
    assert run("check", repo / "cluster-specs").exit_code == 0


def test_files_elsewhere_are_read_when_they_are_named(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    text = (repo / "jobs" / "research" / "pretrain.yaml").read_text()
    (repo / "drafts").mkdir()
    (repo / "drafts" / "a b.yaml").write_text(text.replace("queue: research", "queue: reserch"))
    assert "drafts/a b.yaml:10:3: error GP302" in run("check", repo / "drafts").stdout
    alone = tmp_path_factory.mktemp("alone")
    (alone / "queue.yml").write_text("kind: Queue\n")
    assert "queue.yml:1:1: error GP118" in run("check", alone / "queue.yml").stdout


def test_stdin_is_a_file_too(repo: Path) -> None:
    result = CliRunner().invoke(cli, ["check", "--repo", str(repo), "-"], input="kind: Queue\n")
    assert result.exit_code == 1
    assert result.stdout.startswith("stdin.yaml:1:1: error GP118")


def test_a_path_of_which_nothing_is_read_is_an_error(repo: Path) -> None:
    (repo / "docs").mkdir()
    (repo / "docs" / "a.md").write_text("# a\n")
    (repo / ".gangplanignore").write_text("jobs/research/\n")
    for path in (repo / "docs", repo / "docs" / "a.md", repo / "jobs" / "research" / "pretrain.yaml"):
        result = run("check", path)
        assert result.exit_code == 1
        assert "nothing is read of" in result.stderr


def test_github_and_sarif_name_files_from_the_git_root(repo: Path) -> None:
    team = repo / "team"
    team.mkdir()
    for name in ("cluster-specs", "jobs"):
        (repo / name).rename(team / name)
    (repo / ".git").mkdir()
    breach(team)
    assert "file=team/jobs/research/pretrain.yaml" in run("check", team, "--format", "github").stdout
    assert '"uri": "team/jobs/research/pretrain.yaml"' in run("check", team, "--format", "sarif").stdout
    assert '"file": "jobs/research/pretrain.yaml"' in run("check", team, "--format", "json").stdout


def test_json_for_machines(repo: Path) -> None:
    breach(repo)
    result = run("check", "--repo", repo, "-o", "json")
    (row,) = json.loads(result.stdout)["diagnostics"]
    assert (row["code"], row["file"], row["line"], row["column"], row["object"]) == (
        "GP302",
        "jobs/research/pretrain.yaml",
        10,
        3,
        "Job research/pretrain",
    )
    assert (result.exit_code, result.stderr) == (1, "")


def test_github_s_format_is_chosen_in_its_ci(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    breach(repo)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert run("check", "--repo", repo).stdout.startswith(
        "::error file=jobs/research/pretrain.yaml,line=10,col=3,title=GP302::"
    )
    assert run("check", "--repo", repo, "--format", "text").stdout.startswith("jobs/research")


def test_a_mistyped_flag_exits_1(repo: Path) -> None:
    assert run("check", "--repo", repo, "--strickt").exit_code == 1
    assert run("check", "--repo", repo, "-o", "json", "--format", "sarif").exit_code == 1


def test_an_empty_folder_is_an_error_that_names_init(tmp_path: Path) -> None:
    result = run("check", "--repo", tmp_path)
    assert result.exit_code == 1
    assert "GP124" in result.stdout
    assert "gangplan init" in result.stdout


def test_every_cluster_is_checked_and_shared_problems_are_told_once(repo: Path) -> None:
    (repo / "cluster-specs" / "second").mkdir()
    for file in (repo / "cluster-specs" / "example").iterdir():
        (repo / "cluster-specs" / "second" / file.name).write_text(
            file.read_text().replace("name: example", "name: second")
        )
    result = run("check", "--repo", repo)
    assert "GP128" in result.stdout
    assert "could run in clusters example, second" in result.stdout
    assert "[clusters example, second]" in result.stdout
    (repo / "jobs" / "research").rename(repo / "jobs" / "second")
    assert run("check", "--repo", repo).exit_code == 0
    job = repo / "jobs" / "second" / "pretrain.yaml"
    job.write_text(job.read_text().replace("queue: research", "queue: reserch"))
    assert run("check", "--repo", repo).stdout.count("there is no queue 'reserch' [cluster second]") == 1
    assert run("check", "--repo", repo, "--cluster", "second").stdout.count("GP302") == 1
    assert run("check", "--repo", repo, "--cluster", "example").exit_code == 0
    assert run("check", "--repo", repo, "--cluster", "third").stdout.count("GP126") == 1


def test_check_of_the_living_example_has_no_error() -> None:
    result = run("check", "--repo", ROOT, "--format", "text")
    assert result.exit_code == 0, result.stdout


def test_schema_lists_kinds_and_prints_one() -> None:
    names = run("schema").stdout.split()
    assert {"NodePool", "Queue", "Job.batch", "Job.batch.volcano.sh"} <= set(names)
    for name in names:
        made = json.loads(run("schema", name).stdout)
        assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert {"apiVersion", "kind", "metadata"} <= set(made["properties"])
    assert json.loads(run("schema", "nodepool").stdout)["properties"]["kind"] == {"const": "NodePool"}
    wrong = run("schema", "NodePol")
    assert (wrong.exit_code, "did you mean 'NodePool'?" in wrong.stderr) == (1, True)


def test_help_imports_no_heavy_library() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from compiler.cli.root import cli; "
        "assert CliRunner().invoke(cli, ['--help']).exit_code == 0; "
        "print([name for name in ('pydantic', 'pulp', 'highspy', 'kubernetes', 'ruamel.yaml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


def test_the_schema_of_all_kinds_holds_each_with_our_annotations() -> None:
    made = json.loads(run("schema", "all").stdout)
    text = json.dumps(made)
    references = set(re.findall(r'"#/\$defs/([^"]+)"', text))
    assert references
    assert references <= made["$defs"].keys()
    kinds = {branch["if"]["properties"]["kind"]["const"] for branch in made["allOf"]}
    assert {"Cluster", "NodePool", "Queue", "Job", "PyTorchJob"} <= kinds
    described = {*JOB_ANNOTATIONS, *QUEUE_ANNOTATIONS, *CLUSTER_ANNOTATIONS, *OBJECT_ANNOTATIONS}
    written = {PLACEMENT_ANNOTATION, PROMISED_START_ANNOTATION, STARTS_AT_ANNOTATION, WAITING_ANNOTATION}
    assert set(KNOWN_ANNOTATIONS) - described == written
    for name, expected in (
        ("Queue.scheduling.volcano.sh", QUEUE_ANNOTATIONS),
        ("Job.batch.volcano.sh", JOB_ANNOTATIONS),
    ):
        annotations = made["$defs"][f"{name}.Metadata"]["properties"]["annotations"]["properties"]
        assert annotations.keys() == {*expected, *OBJECT_ANNOTATIONS}


def test_every_field_of_our_own_kinds_is_described() -> None:
    for name in ("Cluster", "NodePool", "SchedulerConfiguration"):
        spec = json.loads(run("schema", name).stdout)["$defs"]["Spec"]["properties"]
        assert [field for field, found in spec.items() if "description" not in found] == []


def test_vscode_gets_a_schema_and_a_setting_that_overwrites_none(repo: Path) -> None:
    assert run("schema", "--vscode", "--repo", repo).exit_code == 0
    settings = json.loads((repo / ".vscode/settings.json").read_text())
    (schema,) = settings["yaml.schemas"]
    assert (repo / schema).is_file()
    (repo / ".vscode/settings.json").write_text("mine")
    assert "exists: add" in run("schema", "--vscode", "--repo", repo).stdout
    assert (repo / ".vscode/settings.json").read_text() == "mine"
