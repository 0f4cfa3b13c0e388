from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from compiler.cli.root import cli
from reconciler.cli import load_tree

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, namespace: a, resourceVersion: "4", creationTimestamp: 2026-01-01T00:00:00Z}
spec:
  queue: tema
  minAvailable: 1
  tasks: [{name: w, replicas: 1, template: {spec: {containers: [{name: c, image: x}]}}}]
"""
QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"}, "spec": {}}


def run(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(cli, ["import", *arguments], obj=load_tree)
    return found.exit_code, found.output


def test_files_become_a_repository_with_its_findings(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [QUEUE]}))
    (tmp_path / "jobs.yaml").write_text(JOB)
    out = tmp_path / "out"
    code, text = run(str(tmp_path / "state.json"), str(tmp_path / "jobs.yaml"), "-o", str(out), "--cluster", "c")
    assert code == 0, text
    assert sorted(str(file.relative_to(out)) for file in out.rglob("*.yaml")) == [
        "cluster-specs/c/cluster.yaml",
        "cluster-specs/c/queues.yaml",
        "jobs/a/job-train.yaml",
    ]
    assert "there is no queue 'tema'" in text
    assert run(str(tmp_path / "jobs.yaml"), "-o", str(out), "--cluster", "c") == (
        1,
        f"Error: {out}/cluster-specs/c exists already; nothing was written\n",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind: [", "the state is neither JSON nor YAML"),
        ("a: 1", "item 0 of the state has no kind or no metadata"),
        (JOB.replace("{name: train,", "{labels: 3, name: train,"), "labels of the state is not a mapping"),
    ],
)
def test_what_is_no_object_is_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.yaml").write_text(content)
    code, text = run(str(tmp_path / "a.yaml"), "-o", str(tmp_path / "out"))
    assert (code, text.count("\n")) == (1, 1)
    assert message in text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["../../elsewhere", "", ".", "a/b", "A"])
def test_a_cluster_has_a_name_that_a_folder_may_have(tmp_path: Path, name: str) -> None:
    (tmp_path / "jobs.yaml").write_text(JOB)
    code, text = run(str(tmp_path / "jobs.yaml"), "-o", str(tmp_path / "out"), "--cluster", name)
    assert code == 1
    assert "use lower-case letters, digits" in text
    assert [file.name for file in tmp_path.iterdir()] == ["jobs.yaml"]


def test_the_next_command_can_be_copied(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(JOB)
    _, text = run(str(tmp_path / "jobs.yaml"), "-o", str(tmp_path / "my cluster"))
    assert f"Next: gangplan check --repo '{tmp_path}/my cluster'" in text
