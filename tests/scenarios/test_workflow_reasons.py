"""What is told of a Workflow that waits: the cause, and the size of pods with which it would start."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.outcome import JobDecision
from compiler.views.explanation import explanation_text
from tests.scenarios.test_reasons_to_act_on import TAINT, compiled, decided, job, pool


def workflow(gpus: Mapping[str, int], more: str = "") -> str:
    """A Workflow of one step for each template. more: fields of each of them."""
    steps = ", ".join(f"[{{name: {name}, template: {name}}}]" for name in gpus)
    templates = [f"{{name: main, steps: [{steps}]}}"]
    for name, gpu in gpus.items():
        resources = f"{{limits: {{nvidia.com/gpu: {gpu}}}}}"
        templates.append(f"{{name: {name}, container: {{image: i, resources: {resources}}}{more}}}")
    return (
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: asks, namespace: team}\n"
        f"spec: {{schedulerName: volcano, entrypoint: main, templates: [{', '.join(templates)}]}}\n"
    )


@pytest.mark.parametrize(
    ("nodes", "asks", "why"),
    [
        (
            pool("h100", 2),
            workflow({"a": 16, "b": 12}),
            "GW103  no node open to it is large enough for one pod of role a: a pod asks for 16 nvidia.com/gpu",
        ),
        (pool("h100", 2, gpus=0), workflow({"a": 1}), "GW103  no node has nvidia.com/gpu, of which a pod of role a"),
        (
            pool("h100", 2),
            workflow({"a": 1}, ", nodeSelector: {gpu: h10}"),
            "GW107  no node has gpu=h10, as role a demands; did you mean h100 (2 nodes)?",
        ),
        (
            pool("a100", 2, more=TAINT),
            workflow({"a": 1}),
            "GW107  there are 2 nodes; all have taint dedicated=a100:NoSchedule, which role a does not",
        ),
    ],
)
def test_a_workflow_of_which_no_node_ever_takes_a_pod_can_never_start(nodes: str, asks: str, why: str) -> None:
    made = compiled(nodes, asks)
    first, *rest = explanation_text(made, decided(made)).splitlines()
    assert first == "Workflow team/asks can never start as written"
    assert any(why in line for line in rest), rest
    assert [reason.facts["never"] for reason in decided(made).reasons] == [True] * len(decided(made).reasons)


def test_a_workflow_whose_pods_no_node_holds_is_told_the_size_with_which_it_starts() -> None:
    told = decided(compiled(pool("h100", 2), workflow({"a": 16})))
    (repair,) = told.repairs
    assert (repair.code, repair.message) == ("GR115", "8 nvidia.com/gpu for a pod of role a instead of 16")
    assert {key: repair.facts[key] for key in ("amount", "now", "resource")} == {
        "amount": 8,
        "now": 16,
        "resource": "nvidia.com/gpu",
    }
    assert repair.sources
    assert decided(compiled(pool("h100", 2), workflow({"a": 8}))).action == "start"
    (both,) = decided(compiled(pool("h100", 2), workflow({"a": 16, "b": 12}))).repairs
    assert (both.message.partition(" and ")[2], [other.facts["role"] for other in both.also]) == (
        "8 nvidia.com/gpu for a pod of role b instead of 12",
        ["b"],
    )
    full = pool("h100", 1), job("runs", 1, spec=", queue: default"), workflow({"a": 16})
    assert [repair.code for repair in decided(compiled(*full)).repairs] == ["GR115"], "it has its room first"
    assert decided(compiled(pool("h100", 2, gpus=0), workflow({"a": 1}))).repairs == ()


H10 = ", nodeSelector: {gpu: h10}"
MENDED = ", nodeSelector: {gpu: h100}"
TOLERATED = ", tolerations: [{key: dedicated, operator: Equal, value: a100, effect: NoSchedule}]"


def source_texts(decision: JobDecision) -> list[str]:
    return [source.field for source in decision.repairs[0].sources]


def test_a_workflow_whose_selector_matches_nothing_is_told_what_to_write_and_where() -> None:
    told = decided(compiled(pool("h100", 2), workflow({"a": 1}, H10)))
    (repair,) = told.repairs
    assert (repair.code, repair.message) == (
        "GR112",
        "let role a use nodes like h100-0 as well: nodeSelector gpu: h100",
    )
    assert {key: repair.facts[key] for key in ("role", "nodes", "edits")} == {
        "role": "a",
        "nodes": ("h100-0",),
        "edits": ("nodeSelector gpu: h100",),
    }
    assert source_texts(told) == ["node selector of role a"]
    assert decided(compiled(pool("h100", 2), workflow({"a": 1}, MENDED))).action == "start"


def test_a_workflow_is_told_of_other_nodes_only_where_these_have_room_for_it() -> None:
    small = pool("a100", 2, gpus=4)
    (repair,) = decided(compiled(small, pool("h100", 2), workflow({"a": 8}, H10))).repairs
    assert repair.message.endswith("nodeSelector gpu: h100")
    assert decided(compiled(small, workflow({"a": 8}, H10))).repairs == ()
    assert decided(compiled(small, workflow({"a": 1, "b": 8}, H10))).repairs == ()


def test_a_workflow_that_tolerates_no_node_is_told_the_toleration() -> None:
    tainted = pool("a100", 2, more=TAINT)
    told = decided(compiled(tainted, workflow({"a": 1})))
    assert told.repairs[0].message == (
        "let role a use nodes like a100-0 as well: toleration {key: dedicated, operator: Equal, value: a100, effect: "
        "NoSchedule}"
    )
    assert source_texts(told) == ["role a"]
    assert decided(compiled(tainted, workflow({"a": 1}, TOLERATED))).action == "start"


def test_a_selector_of_the_whole_workflow_is_mended_where_it_stands_for_all_its_roles() -> None:
    def made(selector: str) -> JobDecision:
        return decided(
            compiled(pool("h100", 2), workflow({"a": 1, "b": 2}).replace("entrypoint", f"{selector[2:]}, entrypoint"))
        )

    told = made(H10)
    assert [(change.code, change.facts["role"]) for change in (told.repairs[0], *told.repairs[0].also)] == [
        ("GR112", "a"),
        ("GR112", "b"),
    ]
    (place,) = {source.position for change in (told.repairs[0], *told.repairs[0].also) for source in change.sources}
    assert place is not None
    assert made(MENDED).action == "start"


def test_a_workflow_with_steps_that_fit_is_told_of_the_others_and_not_that_it_never_starts() -> None:
    made = compiled(pool("h100", 2), workflow({"small": 1, "big": 16}))
    assert "GP526" in {finding.code for finding in made.diagnostics}
    assert not decided(made).never
    full = compiled(pool("h100", 1, gpus=1), pool("a100", 1, more=TAINT), job("r", 1, gpu="nvidia.com/gpu: 1"))
    assert decided(full, "r").action == "start"


@pytest.mark.parametrize("steps", ["one, two", "two, one"])
def test_a_template_in_two_steps_goes_where_each_of_them_says(steps: str) -> None:
    def inner(name: str, gpu: str) -> str:
        return f"{{name: {name}, nodeSelector: {{gpu: {gpu}}}, steps: [[{{name: x, template: leaf}}]]}}"

    side_by_side = ", ".join(f"{{name: {name}, template: {name}}}" for name in steps.split(", "))
    asks = (
        workflow({"leaf": 8})
        .replace("{name: main, steps: [[{name: leaf, template: leaf}]]}", f"{{name: main, steps: [[{side_by_side}]]}}")
        .replace("templates: [", f"templates: [{inner('one', 'h100')}, {inner('two', 'a100')}, ")
    )
    made = decided(compiled(pool("h100", 2), pool("a100", 2), asks))
    assert made.pods == {"one.leaf": {"h100-0": 1}, "two.leaf": {"a100-0": 1}}
    half = compiled(pool("a100", 2), asks)
    assert decided(half).pods == {"two.leaf": {"a100-0": 1}}
    assert "GP393" in {finding.code for finding in half.diagnostics}


def side_by_side(gpus: Mapping[str, int], more: str = "") -> str:
    return workflow(gpus, more).replace("}], [{", "}, {")


def test_changes_of_several_roles_are_told_where_all_of_them_find_room_together() -> None:
    both = {"a": 16, "b": 12}
    assert decided(compiled(pool("h100", 1), side_by_side(both))).repairs == ()
    assert decided(compiled(pool("h100", 1), side_by_side({"a": 8, "b": 8}, H10))).repairs == ()
    for asks in (side_by_side(both), side_by_side({"a": 8, "b": 8}, H10)):
        (repair,) = decided(compiled(pool("h100", 2), asks)).repairs
        assert [change.facts["role"] for change in (repair, *repair.also)] == ["a", "b"]
    mended = decided(compiled(pool("h100", 2), side_by_side({"a": 8, "b": 8})))
    assert mended.pods == {"a": {"h100-0": 1}, "b": {"h100-1": 1}}


def test_each_of_several_workflows_is_told_what_helps_it_as_if_it_were_the_only_one_to_change() -> None:
    made = compiled(pool("h100", 1), workflow({"a": 16}), workflow({"a": 16}).replace("asks", "also"))
    assert [len(decided(made, name).repairs) for name in ("asks", "also")] == [1, 1]


@pytest.mark.parametrize(("away", "told"), [(("n0",), "nodes like n1 as well"), (("n0", "n1"), "")])
def test_no_selector_opens_a_cordoned_node(away: tuple[str, ...], told: str) -> None:
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"gpu": "h100"}},
            "spec": {"unschedulable": name in away},
            "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for name in ("n0", "n1")
    ]
    made = decided(compiled(workflow({"a": 8}, H10), state=ClusterState.from_objects(nodes)))
    assert [told in repair.message for repair in made.repairs] == [True] * bool(told)
