"""A cluster that runs Volcano 1.16: queues of namespaces planned as queues of the tree, and what an upgrade changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compiler.cli.root import cli
from compiler.cluster_state.cluster_state import ClusterState
from compiler.comparison.compare import Revision, compare
from compiler.emit.repaired_files import edited_by_repairs
from compiler.emit.waves import manifests
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.views.explanation import explanation_text
from tests.builders import declared, repositories
from tests.builders.beside import beside
from tests.builders.volcano_1_16 import job as job_1_16

CASES = beside(__file__)
CLUSTER = CASES["cluster"]
QUEUES = CASES["queues"]


def job(name: str, gpus: int, queue: str = "namespace/train", namespace: str = "ml") -> str:
    return job_1_16(name, gpus, queue=queue, namespace=namespace)


def repository(*, queues: str = QUEUES, cluster: str = CLUSTER, **jobs: int) -> Repository:
    files = {"cluster-specs/test/cluster.yaml": cluster, "cluster-specs/test/queues.yaml": queues}
    files |= {f"jobs/{name}.yaml": job(name, gpus) for name, gpus in jobs.items()}
    return Repository({path: text.encode() for path, text in files.items()})


def actions(outcome: Outcome) -> dict[str, str]:
    return {decision.name: decision.action for decision in outcome.decisions}


def test_a_queue_of_a_namespace_keeps_its_limits() -> None:
    outcome = compile_repository(repository(a=4, b=8))
    assert [each.message for each in outcome.diagnostics if each.severity == "error"] == []
    assert sorted(actions(outcome).values()) == ["start", "wait"]
    (waiting,) = (decision for decision in outcome.decisions if decision.action == "wait")
    assert "ml/train" in waiting.reasons[0].message


def test_parents_are_applied_before_their_children() -> None:
    kinds = [(each.object["kind"], each.wave) for each in manifests(compile_repository(repository(a=4)))]
    queues = [kind for kind, _ in kinds if kind.endswith("Queue")]
    assert queues == ["Queue", "NamespaceQueue"]


def test_jobs_wait_in_a_queue_that_never_becomes_ready() -> None:
    outcome = compile_repository(
        repository(queues=QUEUES.replace("capability: {nvidia.com/gpu: 8}", "capability: {nvidia.com/gpu: 32}"), a=4)
    )
    assert {each.code for each in outcome.diagnostics if each.severity == "warning"} >= {"GP439"}
    assert actions(outcome) == {"ml/a": "wait"}


def test_a_tenant_plans_without_the_queues_of_the_cluster() -> None:
    own = "---".join(part for part in QUEUES.split("---") if "kind: NamespaceQueue" in part)
    tree = repository(queues=own, a=4, b=8)
    outcome = compile_repository(Repository({**tree.files, "jobs/c.yaml": job("c", 4, "shared").encode()}))
    assert [each.code for each in outcome.diagnostics if each.severity == "error"] == []
    assert actions(outcome)["ml/c"] == "start", "its queue is not here, and counts as unlimited"
    assert sorted(actions(outcome).values()) == ["start", "start", "wait"], "the own queue keeps its limit"


def test_an_upgrade_says_what_it_changes_for_this_repository() -> None:
    plain = CLUSTER.replace('spec: {volcano: "1.16", namespaceQueues: true}', "spec: {volcano: VERSION}")

    def revision(version: str) -> Revision:
        tree = repository(queues="", cluster=plain.replace("VERSION", f'"{version}"'))
        outcome = compile_repository(tree)
        return Revision(outcome.specs, lambda state: compile_repository(tree, state=state))

    found = compare(revision("1.15"), revision("1.16"), None)
    said = "\n".join(found.scheduler)
    assert "from Volcano 1.16: enqueue books" in said
    assert "preempt asks predicates again" in said
    assert "usage" not in said
    assert "JobFlow" not in said
    assert compare(revision("1.16"), revision("1.16"), None).scheduler == ()


def test_the_namespace_that_used_less_goes_first_and_the_plan_says_so() -> None:
    fair = CLUSTER.replace("{name: priority}", "{name: priority}, {name: fairshare}")
    jobs = [job(name, 8, "shared", name[0]) for name in ("a1", "a2", "b1", "b2")]
    tree = repositories.repository(fair, declared.queue("shared"), *jobs)
    said = '{"lastCycle": "2026-11-26T12:00:00Z", "queues": {"shared": {"a": 720000000, "b": 36000000}}}'
    use = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "fairshare-usage-state", "namespace": "volcano-system"},
        "data": {"state.json": said},
    }
    assert {name for name, action in actions(compile_repository(tree)).items() if action == "start"} == {"a/a1", "a/a2"}
    outcome = compile_repository(tree, state=ClusterState.from_objects([use], clock=1795694400))
    assert {name for name, action in actions(outcome).items() if action == "start"} == {"b/b1", "b/b2"}
    (told,) = (each for each in outcome.diagnostics if each.code == "GP529")
    assert told.message == "namespaces of queue shared go in turn, by hours of use: b (10.0), a (200.0)"


def test_jobs_wait_in_a_queue_that_the_cluster_says_is_not_ready() -> None:
    def live(status: str, state: str = "Open", *, ends: str | None = None) -> ClusterState:
        condition = {"type": "Ready", "status": status, "reason": "ParentNotReady"}
        metadata = {"name": "train", "namespace": "ml", "deletionTimestamp": ends}
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "NamespaceQueue", "metadata": metadata}
        said = {"conditions": [condition], "state": state}
        return ClusterState.from_objects([{**queue, "status": said}], clock=1795694400)

    tree = repository(a=4)
    assert actions(compile_repository(tree, state=live("True"))) == {"ml/a": "start"}
    assert actions(compile_repository(tree, state=live("True", "Closing"))) == {"ml/a": "wait"}
    assert actions(compile_repository(tree, state=live("True", ends="2026-11-26T00:00:00Z"))) == {"ml/a": "wait"}
    outcome = compile_repository(tree, state=live("False"))
    (decision,) = outcome.decisions
    assert decision.action == "wait"
    assert decision.reasons[0].message == "queue ml/train is not ready: see its conditions, GP439 and GP530"
    assert "open queue" not in explanation_text(outcome, decision)


SCIENCE = declared.queue("science", allowedNamespaces=["ml"])
TRAIN = declared.declared("NamespaceQueue", "train", api=SCIENCE["apiVersion"], namespace="ml")
GROUP = declared.declared("PodGroup", "theirs", {"queue": "science"}, namespace="ml")
OF_SCIENCE = {"spec": {"parent": "cluster/science"}}
BUSY = "queue science has no queue below it yet, and holds work: "


@pytest.mark.parametrize(
    ("live", "why"),
    [
        ([SCIENCE], ""),
        ([{**SCIENCE, "status": {"completed": 3, "allocated": {"cpu": "0"}}}], ""),
        ([{**SCIENCE, "status": {"running": 2, "allocated": {"cpu": "4"}}}], "2 running PodGroups, 4 cpu allocated"),
        ([{**SCIENCE, "status": {"reservation": {"resource": {"cpu": "4"}}}}], "4 cpu reservation"),
        ([SCIENCE, {**GROUP, "status": {"phase": "Inqueue"}}], "1 inqueue PodGroup"),
        ([SCIENCE, {**GROUP, "status": {"phase": "Completed"}}], ""),
        ([{**GROUP, "status": {"phase": "Running"}}], ""),  # its queue is not there yet, and is made empty
        ([{**SCIENCE, "status": {"running": 2}}, {**TRAIN, **OF_SCIENCE}], ""),  # there already
        ([{**SCIENCE, "status": {"running": 2}}, TRAIN], "2 running PodGroups"),  # there, with another parent
        (
            [
                {**SCIENCE, "status": {"running": 2}},
                {**SCIENCE, "metadata": {"name": "x"}, "spec": {"parent": "science"}},
            ],
            "",
        ),
    ],
)
def test_a_queue_that_holds_work_does_not_become_a_parent(live: list[dict[str, Any]], why: str) -> None:
    """Volcano refuses the NamespaceQueue, so that the job in it waits."""
    outcome = compile_repository(repository(a=4), state=ClusterState.from_objects(live))
    errors = [each.message for each in outcome.diagnostics if each.severity == "error"]
    assert errors == ([f"ml/train: {BUSY}{why}"] if why else [])
    assert actions(outcome) == {"ml/a": "wait" if why else "start"}


def test_a_busy_leaf_of_the_namespace_closes_all_below_it() -> None:
    below = QUEUES.replace("train,", "pool,").partition("---")[0] + "---\n" + QUEUES.replace("cluster/science", "pool")
    live = [SCIENCE, {**TRAIN, **OF_SCIENCE, "metadata": {"name": "pool", "namespace": "ml"}, "status": {"pending": 1}}]
    outcome = compile_repository(repository(queues=below, a=4), state=ClusterState.from_objects(live))
    assert [each.code for each in outcome.diagnostics if each.severity == "error"] == ["GP530"]
    assert actions(outcome) == {"ml/a": "wait"}


@pytest.mark.parametrize(("allowed", "codes"), [({}, ["GP530"]), ({"allowedNamespaces": ["*"]}, [])])
def test_a_default_queue_from_before_the_upgrade_takes_no_namespace(allowed: dict[str, Any], codes: list[str]) -> None:
    """Volcano 1.16 leaves it as it is; one that it creates lists all of them."""
    own = QUEUES.partition("---")[0].replace("parent: cluster/science, ", "")
    live = [{**SCIENCE, "metadata": {"name": "default"}, "spec": allowed}]
    outcome = compile_repository(repository(queues=own, a=4), state=ClusterState.from_objects(live))
    assert [each.code for each in outcome.diagnostics if each.severity == "error"] == codes
    assert actions(outcome) == {"ml/a": "wait" if codes else "start"}


def scheduler_state(*tags: str, namespace: str = "volcano-system") -> ClusterState:
    """A cluster whose pods of Volcano's scheduler have these images."""
    pods = []
    for number, tag in enumerate(tags):
        spec = {"containers": [{"name": "volcano-scheduler", "image": f"docker.io/volcanosh/vc-scheduler:{tag}"}]}
        pods.append(declared.declared("Pod", f"volcano-scheduler-{number}", spec, namespace=namespace))
    return ClusterState.from_objects(pods, clock=1795694400)


def of_release(outcome: Outcome) -> list[tuple[str, str]]:
    return [(each.severity, each.message) for each in outcome.diagnostics if each.code == "GP531"]


@pytest.mark.parametrize(
    ("tag", "namespace", "is_found"),
    [
        ("v1.16.0", "volcano-system", False),
        ("v1.15.1", "volcano-system", True),
        ("v1.15.1", "elsewhere", False),
        ("latest", "volcano-system", False),
    ],
)
def test_the_release_that_runs_is_compared_with_the_declared_one(tag: str, namespace: str, is_found: bool) -> None:
    outcome = compile_repository(repository(), state=scheduler_state(tag, namespace=namespace))
    warning = ("warning", "Volcano 1.15.1 runs, and the plan follows the rules of 1.16")
    assert of_release(outcome) == ([warning] if is_found else [])
    assert not any(each.code == "GP436" for each in outcome.diagnostics), "the declared release counts"


UNNAMED = CLUSTER.replace('volcano: "1.16", ', "")


@pytest.mark.parametrize(
    ("tags", "follows", "found"),
    [
        ([], "1.15", []),
        (["latest"], "1.15", []),
        (["v1.15.2"], "1.15.2", [("info", "the plan follows the rules of Volcano 1.15.2, which the cluster runs")]),
        (["v1.16.0"], "1.16.0", [("info", "the plan follows the rules of Volcano 1.16.0, which the cluster runs")]),
        (
            ["v1.16.0", "v1.15.2"],
            "1.15.2",
            [
                ("info", "the plan follows the rules of Volcano 1.15.2, which the cluster runs"),
                ("warning", "Volcano 1.16.0 runs, and the plan follows the rules of 1.15.2"),
            ],
        ),
        (["v1.18.0"], "1.16", [("warning", "Volcano 1.18.0 runs, and the plan follows the rules of 1.16")]),
        (["v1.9.0"], "1.15", [("warning", "Volcano 1.9.0 runs, and the plan follows the rules of 1.15")]),
    ],
)
def test_a_cluster_that_names_no_release_is_judged_by_the_one_that_runs(
    tags: list[str], follows: str, found: list[tuple[str, str]]
) -> None:
    outcome = compile_repository(repository(cluster=UNNAMED, a=4), state=scheduler_state(*tags))
    assert str(outcome.specs.cluster.volcano) == follows
    assert sorted(of_release(outcome)) == found
    is_refused = any(each.code == "GP436" for each in outcome.diagnostics)
    assert is_refused == follows.startswith("1.15")
    assert actions(outcome) == ({} if is_refused else {"ml/a": "start"})


def test_the_scheduler_runs_where_its_configuration_is() -> None:
    elsewhere = repository(cluster=UNNAMED.replace("volcano-system", "batch"), a=4)
    assert actions(compile_repository(elsewhere, state=scheduler_state("v1.16.0", namespace="batch")))
    assert not actions(compile_repository(elsewhere, state=scheduler_state("v1.16.0")))


def test_repairs_and_comparisons_follow_the_release_that_runs() -> None:
    state, tree = scheduler_state("v1.16.0"), repository(cluster=UNNAMED, a=4, b=8)
    outcome = compile_repository(tree, state=state)
    (waiting,) = (each for each in outcome.decisions if each.action == "wait")
    assert any(files for _, files in edited_by_repairs(outcome, waiting, tree)), "its edits bring no error"
    base = compile_repository(repository(queues="", cluster=UNNAMED), state=scheduler_state("v1.15.2"))
    head = Revision(outcome.specs, lambda _: outcome)
    assert "from Volcano 1.16: enqueue books" in "\n".join(
        compare(Revision(base.specs, lambda _: base), head, None).scheduler
    )


def test_check_judges_by_the_release_of_a_snapshot(tmp_path: Path) -> None:
    for name, content in repository(cluster=UNNAMED, a=4).files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    for tag, codes in (("v1.16.0", {"GP531"}), ("v1.15.2", {"GP436", "GP531"})):
        items = json.dumps({"kind": "List", "items": scheduler_state(tag).pods})
        (tmp_path / "state.json").write_text(items)
        asked = ["check", "--repo", str(tmp_path), "--state", str(tmp_path / "state.json"), "-o", "json"]
        said = json.loads(CliRunner().invoke(cli, asked).output)["diagnostics"]
        assert {each["code"] for each in said} & {"GP436", "GP531"} == codes
