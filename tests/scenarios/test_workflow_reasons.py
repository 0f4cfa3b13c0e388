"""What is told of a Workflow that waits: the cause, and the size of pods with which it would start."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

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
    assert decided(compiled(pool("h100", 2), workflow({"a": 16, "b": 12}))).repairs == (), "b is too large as well"
    full = pool("h100", 1), job("runs", 1, spec=", queue: default"), workflow({"a": 16})
    assert [repair.code for repair in decided(compiled(*full)).repairs] == ["GR115"], "it has its room first"
    assert decided(compiled(pool("h100", 2, gpus=0), workflow({"a": 1}))).repairs == ()
    assert decided(compiled(pool("h100", 2), workflow({"a": 1}, ", nodeSelector: {gpu: h10}"))).repairs == ()


def test_a_workflow_with_steps_that_fit_is_told_of_the_others_and_not_that_it_never_starts() -> None:
    made = compiled(pool("h100", 2), workflow({"small": 1, "big": 16}))
    assert "GP526" in {finding.code for finding in made.diagnostics}
    assert not decided(made).never
    full = compiled(pool("h100", 1, gpus=1), pool("a100", 1, more=TAINT), job("r", 1, gpu="nvidia.com/gpu: 1"))
    assert decided(full, "r").action == "start"
