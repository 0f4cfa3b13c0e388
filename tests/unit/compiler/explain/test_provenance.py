"""Every fact says which lines of the repository and which things of the cluster it comes from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.explain.catalogue import ENTRIES, REASONS, REPAIRS
from compiler.explain.lost_starts import LostStart
from compiler.explain.outside_jobs import suspension_sources
from compiler.explain.provenance import Provenance
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.views import data, text
from compiler.views.explanation import explanation_text
from solver.facts import CapabilityLimit, Fact, PodRuleConflict, ResourceShortage
from solver.problem import Placement, Problem
from solver.repairs import Repair
from tests.builders.beside import beside
from tests.builders.described import statements

CASES = beside(__file__)
CLUSTER, NODE = CASES["cluster"], CASES["node"]


def job(name: str) -> str:
    return str(CASES["job"].replace("NAME", name))


FILES = {"cluster-specs/test/all.yaml": CLUSTER, "jobs/one.yaml": job("one"), "jobs/two.yaml": job("two")}


def compiled(**files: str) -> Outcome:
    nodes = [{**NODE, "metadata": {"name": f"gpu-{n}", "labels": {"zone": "a"}}, "spec": {}} for n in range(4)]
    state = ClusterState.from_objects([*nodes, NODE, CASES["guard"]])
    return compile_repository(
        Repository({name: content.encode() for name, content in {**FILES, **files}.items()}), state=state
    )


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    made = compiled()
    assert made.ok, made.diagnostics
    return made


def seen(outcome: Outcome, j: int, statement: Fact | Repair, problem: Problem | None = None) -> list[str]:
    """The object and field of each source of a statement about gang j, and the text of the line that it points to."""
    assert outcome.problem is not None
    assert outcome.origins is not None
    provenance = Provenance(problem or outcome.problem, outcome.origins, outcome.specs.cluster.document)
    found = []
    for source in dict.fromkeys(ENTRIES[type(statement)].sources(provenance, j, statement)):
        place = source.position
        line = FILES[place.file].splitlines()[place.line - 1].strip() if place else "in the cluster"
        found.append(f"{source.object} {source.field} | {line}")
    return found


def test_every_code_says_where_it_comes_from() -> None:
    assert CASES["facts"].keys() == {kind.code for kind in REASONS} - {"GW111", "GW126"}


@pytest.mark.parametrize("code", CASES["facts"])
def test_a_fact_names_the_objects_that_it_comes_from_and_no_others(outcome: Outcome, code: str) -> None:
    assert outcome.problem is not None
    runs = replace(outcome.problem.gangs[0], running=(Placement(0, 1, 1), Placement(0, 2, 1)))
    problem = replace(outcome.problem, gangs=(runs, *outcome.problem.gangs[1:]))
    for fact, sources in CASES["facts"][code]:
        (statement,) = statements([fact], {"LostStart": LostStart})
        assert seen(outcome, 0, statement, problem) == sources


def test_every_repair_says_where_it_is_made() -> None:
    assert CASES["repairs"].keys() == {kind.code for kind in REPAIRS}


@pytest.mark.parametrize("code", CASES["repairs"])
def test_a_repair_names_the_line_to_change_or_what_is_waited_for(outcome: Outcome, code: str) -> None:
    repair, sources = CASES["repairs"][code]
    assert seen(outcome, 0, *statements([repair])) == sources


def test_a_pod_rule_without_an_owning_gang_is_named_by_its_pod(outcome: Outcome) -> None:
    assert outcome.origins is not None
    (guarded,) = (rho for rho, guards in enumerate(outcome.origins.rules.owner_pods) if guards)
    conflict = PodRuleConflict(role=0, pod_rule=guarded)
    assert seen(outcome, 1, conflict) == ["Pod ops/guard rule | in the cluster"]


def test_nodes_that_only_the_cluster_knows_are_named_in_few_words() -> None:
    files = {
        **FILES,
        "cluster-specs/test/all.yaml": "---\n".join(part for part in CLUSTER.split("---\n") if "NodePool" not in part),
    }
    nodes = [{**NODE, "metadata": {"name": f"n-{n}", "labels": {"zone": "a"}}, "spec": {}} for n in range(5)]
    made = compile_repository(
        Repository({name: content.encode() for name, content in files.items()}), state=ClusterState.from_objects(nodes)
    )
    assert seen(made, 0, ResourceShortage(8, 4, resource=1))[0] == "Node n-0 to 4 capacity | in the cluster"


def test_pods_outside_the_plan_count_in_the_queues_above_theirs(outcome: Outcome) -> None:
    assert outcome.problem is not None
    first, *others = outcome.problem.queues
    below = replace(
        first, name="below", parent=0, used=tuple(4 * (n == "nvidia.com/gpu") for n in outcome.problem.resources)
    )
    world = replace(outcome.problem, queues=(first, *others, below))
    limits = [CapabilityLimit(asked=8, available=4, queue=q, resource=1, limit=16) for q in (0, 1)]
    named = "Pods outside the plan in queue below 4 nvidia.com/gpu | in the cluster"
    assert [named in seen(outcome, 0, limit, world) for limit in limits] == [True, False]


def test_a_suspended_job_points_to_what_its_owner_wrote() -> None:
    paused = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: p, namespace: team}\n"
        "spec:\n  suspend: true\n  template:\n    spec:\n"
    )
    paused += "      restartPolicy: Never\n      containers: [{name: c, image: i}]\n"
    made = compiled(
        **{
            "jobs/paused.yaml": paused,
            "jobs/other.yaml": job("other").replace("spec:\n  queue", "spec:\n  schedulerName: mine\n  queue", 1),
        }
    )
    assert made.origins is not None
    found = {gang.document.name: suspension_sources(gang) for gang in made.origins.left_out.inactive}
    assert [(source.field, source.position and source.position.line) for (source,) in found.values()] == [
        ("scheduler", 9),
        ("suspend", 5),
    ]


def test_a_service_without_room_points_to_its_pods() -> None:
    web = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: team}\nspec:\n"
    web += "  containers: [{name: c, image: i, resources: {requests: {cpu: 9k}}}]\n"
    decided = next(each for each in compiled(**{"jobs/web.yaml": web}).decisions if not each.gang.scheduling.is_bound)
    ((reason,), (source,)) = decided.reasons, decided.reasons[0].sources
    assert (reason.code, source.field, source.position and source.position.line) == ("GW103", "pod", 4)


def test_plan_names_two_lines_explain_all_with_columns_and_json_every_part() -> None:
    made = compiled()
    decided = next(d for d in made.decisions if d.reasons)
    said = decided.reasons[0].sources
    assert said
    assert all(source.position for source in said)
    first = said[0].position
    assert first is not None
    assert f"see {first.file}:{first.line} {said[0].field}" in text.plan_text(made)
    full = explanation_text(made, decided)
    for source in said:
        assert source.position is not None
        assert f"{source.position.file}:{source.position.line}:{source.position.column}: {source.object}" in full
    shown = data.gang_entry(decided)["reasons"][0]["from"]
    assert shown[0] == {
        "object": said[0].object,
        "field": said[0].field,
        "file": first.file,
        "line": first.line,
        "column": first.column,
    }
    assert len(shown) == len(said)
