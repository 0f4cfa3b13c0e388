"""Each repair that is a certain edit of files is applied as its patch, and the job starts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compiler.cli.root import cli
from compiler.cluster_state.cluster_state import load_state
from compiler.emit.repaired_files import edited_by_repairs
from compiler.kubernetes import Object
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from tests.builders.cluster_objects import node, pod
from tests.builders.repositories import CLUSTER, JOB
from tests.golden.test_golden import HERE, compiled

CASES = ("better-by-sizes", "hard-topology", "neighbours", "queue-limit", "reservation", "running")
EDITS = {"GR101": 1, "GR105": 2, "GR117": 1, "GR119": 1, "GR121": 1}


def test_every_patch_starts_its_job_or_says_who_comes_first() -> None:
    seen, waiting = Counter[str](), list[str]()
    for case in CASES:
        tree, state = Repository.from_directory(HERE / case / "repo"), HERE / case / "state.yaml"
        for decision in compiled(case).decisions:
            for message, files in edited_by_repairs(compiled(case), decision, tree):
                if files is not None:
                    seen[message.code] += 1
                    held = load_state(state.read_bytes()) if state.is_file() else None
                    again = compile_repository(tree.with_files(files), state=held)
                    if again.by_key[decision.key].action not in ("start", "keep"):
                        waiting.append(f"{decision.gang.document.name}: {message.message}")
    assert [each for each in waiting if "waits for it too and" not in each] == []
    assert {code: count for code, count in EDITS.items() if seen[code] < count} == {}


LABELS = {"volcano.sh/job-name": "a", "volcano.sh/task-spec": "worker"}
BIG = """\
  - name: big
    replicas: 1
    template: {spec: {containers: [{name: main, image: a, resources: {requests: {cpu: 8}}}]}}
"""


def explained(folder: Path, job: str, items: Sequence[Object], *options: str) -> Result:
    """What `gangplan explain` answers for the job in a cluster that holds these objects."""
    for name, text in {
        "cluster-specs/t/all.yaml": CLUSTER.replace("BINDING", "gated"),
        "jobs/a.yaml": job.replace("NAME", "a"),
        "state.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return CliRunner().invoke(cli, ["explain", "a", "--repo", str(folder), "--state", f"{folder}/state.json", *options])


@pytest.mark.parametrize(
    ("job", "cordoned", "pods", "command"),
    [
        (
            JOB,
            True,
            [],
            "GR116 wait for n-1 to be ready and open again (it is done in the cluster: kubectl uncordon n-1)",
        ),
        (JOB + BIG, False, ["n-0", "n-1"], "kubectl -n default delete pods -l volcano.sh/job-name=a)"),
    ],
)
def test_of_a_repair_in_the_cluster_the_command_is_printed(
    tmp_path: Path, job: str, cordoned: bool, pods: list[str], command: str
) -> None:
    amount = {"cpu": "8" if job != JOB else "4", "pods": "110"}
    nodes = [node(name, amount, spec={"unschedulable": cordoned and name == "n-1"}) for name in ("n-0", "n-1")]
    held = [
        pod(f"a-{at}", name, job="a", requests={"cpu": "4"}, namespace="default", labels=LABELS)
        for at, name in enumerate(pods)
    ]
    done = explained(tmp_path, job, [*nodes, *held], "--patch")
    assert command in done.stderr
    assert "kubectl" not in done.stdout


@pytest.mark.parametrize(
    ("taint", "absence", "how"),
    [
        ("node.kubernetes.io/unschedulable", "cordoned", ": kubectl uncordon n-1)"),
        ("node.kubernetes.io/unreachable", "unreachable", ", not in a file)"),
        ("node.kubernetes.io/disk-pressure", "short of disk, memory or processes", ", not in a file)"),
    ],
)
def test_a_taint_that_kubernetes_takes_off_again_is_no_reason_for_ever(
    tmp_path: Path, taint: str, absence: str, how: str
) -> None:
    """No repair tolerates it, and only a cordon is the operator's to end."""
    amount = {"cpu": "4", "pods": "110"}
    gone = {"taints": [{"key": taint, "effect": "NoSchedule"}], "unschedulable": absence == "cordoned"}
    nodes = [node("n-0", amount), node("n-1", amount, spec=gone)]
    text = " ".join(explained(tmp_path, JOB, nodes).stdout.split())
    assert f"there would be room with n-1, {absence} for now" in text
    assert "GR112" not in text
    assert how in explained(tmp_path, JOB, nodes, "--patch").stderr


@pytest.mark.parametrize(("operator", "value", "is_patched"), [("In", "a100", True), ("NotIn", "h100", False)])
def test_a_node_affinity_gets_one_more_value(tmp_path: Path, operator: str, value: str, is_patched: bool) -> None:
    row = f"{{key: gpu, operator: {operator}, values: [{value}]}}"
    terms = f"{{nodeSelectorTerms: [{{matchExpressions: [{row}]}}]}}"
    affinity = f"affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {terms}}}}}, containers:"
    nodes = [node(name, {"cpu": "8", "pods": "110"}, labels={"gpu": "h100"}) for name in ("n-0", "n-1")]
    done = explained(tmp_path, JOB.replace("containers:", affinity, 1), nodes, "--patch", "--repair", "GR112")
    assert ("values: [a100, h100]" in done.stdout) == is_patched
    assert ("no patch for" in done.stderr) != is_patched
