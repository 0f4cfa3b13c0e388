"""Nothing comes out of a plan that the verifier objects to."""

from __future__ import annotations

import time
from typing import Any

import pytest

import compiler.pipeline
from compiler.cluster_state.cluster_state import ClusterState
from compiler.emit.lock import lock_text
from compiler.emit.waves import manifests
from compiler.kubernetes import PLACEMENT_ANNOTATION
from compiler.lower.lowering import lower
from compiler.pipeline import CommandLimit, compile_repository
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import Specs
from compiler.views import data, text
from compiler.views.explanation import explanation_text
from solver.options import Options
from solver.problem import InvalidProblemError, Problem
from solver.verify import Violation
from tests.builders.beside import beside
from tests.builders.cluster_objects import Object, node, pod
from tests.builders.repositories import CLUSTER, FILES, JOB


def test_a_refused_plan_is_a_finding_at_the_job_and_emits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        compiler.pipeline, "verify", lambda problem, plan: [Violation("gang", ("decisions", 0), "half of it is placed")]
    )
    outcome = compile_repository(Repository(FILES))
    (finding,) = [d for d in outcome.diagnostics if d.severity == "error"]
    assert (finding.code, finding.position.file, finding.message) == (
        "GP502",
        "jobs/a.yaml",
        "gang: half of it is placed",
    )
    assert (outcome.ok, manifests(outcome), outcome.decisions, outcome.exit_code()) == (False, (), (), 1)


def test_a_problem_that_contradicts_itself_is_a_finding_at_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(problem: Problem, options: object, mapper: object) -> None:
        raise InvalidProblemError(("nodes", 0, "capacity", 1), "too odd")

    monkeypatch.setattr(compiler.pipeline, "solve", refuse)
    outcome = compile_repository(Repository(FILES))
    (finding,) = [d for d in outcome.diagnostics if d.severity == "error"]
    assert (finding.code, finding.position.file, finding.position.line) == ("GP501", "cluster-specs/t/all.yaml", 8)
    assert not outcome.ok


def test_a_struck_clock_is_a_warning_and_stands_in_the_lock_and_the_plan() -> None:
    pods = {"a": 3, "b": 2, "c": 2}
    files = FILES | {
        f"jobs/{n}.yaml": JOB.replace("NAME", n)
        .replace("replicas: 2", f"replicas: {k}")
        .replace("cpu: 4", "cpu: 8")
        .encode()
        for n, k in pods.items()
    }
    for options, struck in ((None, False), (Options(time_limit=0.0), True)):
        outcome = compile_repository(Repository(files), options=options)
        assert outcome.ok
        assert outcome.error_count == 0
        assert {d.action for d in outcome.decisions} == {"start", "wait"}
        assert [d.position.file for d in outcome.diagnostics if d.code == "GP504"] == [
            "cluster-specs/t/all.yaml"
        ] * struck
        assert ("clockStruck: true" in lock_text(outcome)) is struck
        assert data.plan_document(outcome).get("clockStruck", False) is struck


@pytest.mark.parametrize(
    ("limit", "is_cut"),
    [
        (CommandLimit(started_at=time.monotonic() - 1_000), True),  # the cluster's 60 s are over
        (CommandLimit(100_000, started_at=time.monotonic() - 1_000), False),
        (CommandLimit(0), True),
    ],
)
def test_the_time_limit_is_the_whole_commands(limit: CommandLimit, is_cut: bool) -> None:
    files = FILES | {"jobs/a.yaml": JOB.replace("replicas: 2", "replicas: 3").encode(), "jobs/b.yaml": OTHER_JOB}
    outcome = compile_repository(Repository(files), limit=limit)
    assert outcome.ok
    assert any(diagnostic.code == "GP504" for diagnostic in outcome.diagnostics) is is_cut


OTHER_JOB = JOB.replace("NAME", "b").replace("cpu: 4", "cpu: 8").encode()
HUGE = JOB.replace("cpu: 4", "cpu: 4, memory: AMOUNT")


@pytest.mark.parametrize(
    ("name", "amount", "replicas"), [("a", "7Ei", 2), ("z", "7Ei", 2), ("a", "10Gi", 2_000_000_000)]
)
def test_a_job_beyond_all_numbers_does_not_take_the_others_with_it(name: str, amount: str, replicas: int) -> None:
    huge = HUGE.replace("NAME", name).replace("AMOUNT", amount).replace("replicas: 2", f"replicas: {replicas}")
    plain = HUGE.replace("NAME", "m").replace("AMOUNT", "1Gi")
    outcome = compile_repository(Repository({**FILES, "jobs/a.yaml": huge.encode(), "jobs/m.yaml": plain.encode()}))
    (finding,) = [d for d in outcome.diagnostics if d.severity == "error"]
    assert (finding.code, finding.position.file, finding.object) == ("GP501", "jobs/a.yaml", f"Job {name}")
    assert [decided.name for decided in outcome.decisions] == ["default/m"]
    assert [m.object["metadata"]["name"] for m in manifests(outcome) if m.object["kind"] == "Job"] == ["m"]
    assert outcome.exit_code() == 1


def test_a_cluster_without_nodes_has_a_plan_in_which_every_job_waits() -> None:
    outcome = compile_repository(
        Repository(
            {
                "cluster-specs/t/all.yaml": CLUSTER.replace("BINDING", "gated").encode(),
                "jobs/a.yaml": FILES["jobs/a.yaml"],
            }
        )
    )
    (decided,) = outcome.decisions
    assert (decided.action, [reason.code for reason in decided.reasons]) == ("wait", ["GW107"])


def test_a_job_of_no_replicas_is_empty_and_runs_nowhere() -> None:
    files = FILES | {"jobs/b.yaml": JOB.replace("NAME", "b").replace("replicas: 2", "replicas: 0").encode()}
    outcome = compile_repository(Repository(files))
    assert [(decided.name, decided.action) for decided in outcome.decisions] == [
        ("default/a", "start"),
        ("default/b", "empty"),
    ]
    assert [gang["decision"] for gang in data.plan_document(outcome)["gangs"]] == ["start", "empty"]
    lines = text.plan_text(outcome).splitlines()
    assert "Without pods: 1 job (default/b)" in lines
    assert lines[-1] == "Plan: 1 to start, 0 to keep, 0 to wait."
    assert explanation_text(outcome, outcome.decisions[1]).startswith("Job default/b has no pods")
    assert [m.object["metadata"]["annotations"][PLACEMENT_ANNOTATION] for m in manifests(outcome)[-1:]] == ["{}"]


def test_an_empty_repository_and_an_unknown_cluster_have_no_plan() -> None:
    assert [d.code for d in compile_repository(Repository({})).diagnostics] == ["GP124"]
    assert [d.code for d in compile_repository(Repository(FILES), "other").diagnostics] == ["GP126"]
    assert not compile_repository(Repository({})).ok


def test_the_same_inputs_have_the_same_digest() -> None:
    assert (
        compile_repository(Repository(FILES)).digest
        == compile_repository(Repository(dict(reversed(FILES.items())))).digest
    )


HYPERNODES = beside(__file__)["hypernodes"]


def live(name: str, side: str) -> Object:
    return node(name, {"cpu": "8"}, labels={"side": side})


def test_selectors_of_hypernodes_hold_for_the_nodes_that_the_cluster_has() -> None:
    files = {"cluster-specs/t/all.yaml": f"{CLUSTER.replace('BINDING', 'gated')}---\n{HYPERNODES}".encode()}
    state = ClusterState.from_objects(
        [live("l10", "left"), live("l9", "left"), live("r", "right"), live("other", "none")]
    )
    outcome = compile_repository(Repository(files), state=state)
    assert outcome.problem is not None
    names = [h.name for h in outcome.problem.hypernodes]
    assert {n.name: None if n.leaf is None else names[n.leaf] for n in outcome.problem.nodes} == {
        "l9": "left",
        "l10": "left",
        "other": None,
        "r": "right",
    }


def test_without_a_tree_in_the_repository_the_clusters_own_one_counts() -> None:
    from ruamel.yaml import YAML

    state = ClusterState.from_objects([live("l1", "left"), live("r1", "right"), *YAML(typ="safe").load_all(HYPERNODES)])
    outcome = compile_repository(
        Repository({"cluster-specs/t/all.yaml": CLUSTER.replace("BINDING", "gated").encode()}), state=state
    )
    assert outcome.problem is not None
    assert [(h.name, h.tier) for h in outcome.problem.hypernodes] == [("left", 1), ("right", 1)]
    assert [n.leaf for n in outcome.problem.nodes] == [0, 1]
    assert [m for m in manifests(outcome) if m.wave == 2] == []


def test_no_document_is_to_blame_for_what_only_fails_beside_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_on_pods(specs: Specs, state: ClusterState | None = None, *rest: Any) -> Any:
        if specs.gangs and state is not None and state.pods:
            raise KeyError(state.pods[0]["metadata"]["name"])
        return lower(specs, state, *rest)

    monkeypatch.setattr(compiler.pipeline, "lower", fails_on_pods)
    with pytest.raises(KeyError, match="odd"):
        compile_repository(Repository(FILES), state=ClusterState((node("n", {"cpu": "8"}),), (pod("odd"),)))


def test_a_repository_without_nodes_is_no_finding_where_the_state_has_some() -> None:
    files = {"cluster-specs/t/all.yaml": CLUSTER.replace("BINDING", "gated").encode()}
    for state, found in ((None, ["GP355"]), (ClusterState.from_objects([node("n-0", {"cpu": "8"})]), [])):
        assert [each.code for each in compile_repository(Repository(files), state=state).diagnostics] == found
