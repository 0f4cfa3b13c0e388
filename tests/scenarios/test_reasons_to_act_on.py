"""Reasons that a person can act on: what is told names the cause and the value to type, and typing it helps."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from compiler.outcome import JobDecision, Outcome
from compiler.pipeline import compile_repository
from compiler.repository import Repository
from compiler.views.explanation import explanation_text

CLUSTER = "apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\n"


def pool(name: str, count: int, gpus: int = 8, more: str = "") -> str:
    """Nodes with label gpu, their pool's name. more: fields of the pool's spec."""
    return (
        f"apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\n"
        f"spec: {{count: {count}, capacity: {{cpu: 64, nvidia.com/gpu: {gpus}}}, labels: {{gpu: {name}}}{more}}}\n"
    )


def job(
    name: str, replicas: int, *, spec: str = "", task: str = "", pod: str = "", gpu: str = "nvidia.com/gpu: 8"
) -> str:
    """A Volcano job with one role. spec, task, pod: further fields, each with a comma in front."""
    return (
        f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: {name}, namespace: team}}\n"
        f"spec: {{schedulerName: volcano{spec}, tasks: [{{name: worker, replicas: {replicas}{task}, template: {{spec: "
        f"{{restartPolicy: Never{pod}, containers: [{{name: c, image: i, resources: {{limits: {{{gpu}}}}}}}]}}}}}}]}}\n"
    )


def compiled(*documents: str) -> Outcome:
    made = compile_repository(Repository({"cluster-specs/c/all.yaml": "---\n".join((CLUSTER, *documents)).encode()}))
    assert made.ok, made.diagnostics
    assert not made.error_count, made.diagnostics
    return made


def decided(made: Outcome, name: str = "asks") -> JobDecision:
    return next(d for d in made.decisions if d.gang.document.name == name)


def said(decision: JobDecision) -> Mapping[str, str]:
    """Code -> sentence, of reasons and repairs."""
    return {message.code: message.message for message in (*decision.reasons, *decision.repairs)}


def queue(name: str, fields: str) -> str:
    return f"apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {name}}}\nspec: {{{fields}}}\n"


def test_a_job_that_can_never_start_is_told_so_in_the_first_line() -> None:
    made = compiled(pool("h100", 2), job("asks", 3), job("fits", 2))
    first = {name: explanation_text(made, decided(made, name)).splitlines()[0] for name in ("asks", "fits")}
    assert first == {"asks": "Job team/asks can never start as written", "fits": "Job team/fits starts"}


def test_a_capability_is_said_as_the_value_to_type() -> None:
    documents = pool("h100", 4), job("asks", 3, spec=", queue: q")
    made = compiled(*documents, queue("q", "capability: {nvidia.com/gpu: 16}"))
    (repair,) = (r for r in decided(made).repairs if r.code == "GR101")
    assert repair.message == "capability 24 nvidia.com/gpu for queue q, 8 more"
    assert (repair.facts["limit"], repair.facts["amount"]) == (24, 8)
    again = compiled(*documents, queue("q", f"capability: {{nvidia.com/gpu: {repair.facts['limit']}}}"))
    assert decided(again).action == "start"


def test_fewer_pods_come_with_every_edit_that_they_need() -> None:
    parts = ", minAvailable: {}, partitionPolicy: {{totalPartitions: {}, partitionSize: 2, minPartitions: {}}}"
    made = compiled(pool("h100", 5), job("asks", 6, spec=", minAvailable: 6", task=parts.format(6, 3, 3)))
    (repair,) = (r for r in decided(made).repairs if r.code == "GR105")
    assert repair.message == (
        "4 pods of role worker instead of 6, with minAvailable: 4 of the role, minPartitions: 2, totalPartitions: 2, "
        "minAvailable: 4"
    )
    assert repair.facts["edits"] == (
        "spec.tasks[0].minAvailable: 4",
        "spec.tasks[0].partitionPolicy.minPartitions: 2",
        "spec.tasks[0].partitionPolicy.totalPartitions: 2",
        "spec.minAvailable: 4",
    )
    again = compiled(pool("h100", 5), job("asks", 4, spec=", minAvailable: 4", task=parts.format(4, 2, 2)))
    assert decided(again).action == "start"


def test_fewer_pods_of_a_job_that_writes_nothing_else_need_no_other_edit() -> None:
    made = compiled(pool("h100", 2), job("asks", 3))
    assert said(decided(made))["GR105"] == "2 pods of role worker instead of 3"


def test_a_resource_that_no_node_has_is_likened_to_one_that_some_have() -> None:
    made = compiled(pool("h100", 2), job("asks", 1, gpu="nvidia.com/gpus: 8"), job("odd", 1, gpu="example.com/fpga: 1"))
    assert said(decided(made))["GW103"] == (
        "no node has nvidia.com/gpus, of which a pod of role worker asks for 8; did you mean nvidia.com/gpu?"
    )
    assert (
        said(decided(made, "odd"))["GW103"] == "no node has example.com/fpga, of which a pod of role worker asks for 1"
    )


TAINT = ", taints: [{key: dedicated, value: a100, effect: NoSchedule}]"
TOLERATION = "{key: dedicated, operator: Equal, value: a100, effect: NoSchedule}"


def test_a_taint_is_told_apart_from_the_selector_with_the_toleration_that_mends_it() -> None:
    pools = pool("a100", 3, more=TAINT), pool("h100", 16)
    asks = job("asks", 2, pod=", nodeSelector: {gpu: a100}")
    told = said(decided(compiled(*pools, asks)))
    assert told["GW107"] == (
        "3 nodes match gpu=a100; all have taint dedicated=a100:NoSchedule, which role worker does not tolerate"
    )
    assert told["GR112"] == f"let role worker use nodes like a100-0 as well: toleration {TOLERATION}"
    mended = job("asks", 2, pod=f", nodeSelector: {{gpu: a100}}, tolerations: [{TOLERATION}]")
    assert decided(compiled(*pools, mended)).action == "start"


def test_too_few_open_nodes_are_told_apart_from_those_with_taints() -> None:
    made = compiled(pool("a100", 3, more=TAINT), pool("h100", 2), job("asks", 4))
    assert said(decided(made))["GW120"] == (
        "the 2 nodes that role worker may use hold 2 of 4 pods, even empty; of those that match its selectors "
        "3 have taint dedicated=a100:NoSchedule, which it does not tolerate"
    )


@pytest.mark.parametrize(
    ("selector", "message", "repair"),
    [
        (
            "gpu: h10",
            "no node has gpu=h10, as role worker demands; did you mean h100 (16 nodes)?",
            "nodeSelector gpu: ",
        ),
        (
            "gpu: v5",
            "no node has gpu=v5, as role worker demands; there is h100 (16 nodes), b200 (2 nodes)",
            "nodeSelector gpu: ",
        ),
        ("gpus: h100", "no node has gpus=h100, as role worker demands; did you mean the label gpu?", ""),
        ("fabric: ib", "no node has fabric=ib, as role worker demands", ""),
        ("gpu: h100, rack: r1", "no node has all that role worker demands: gpu=h100, rack=r1", ""),
    ],
)
def test_a_selector_that_matches_nothing_is_likened_to_one_that_would(selector: str, message: str, repair: str) -> None:
    pools = pool("h100", 16), pool("b200", 2).replace("labels: {", "labels: {rack: r1, ")
    told = said(decided(compiled(*pools, job("asks", 2, pod=f", nodeSelector: {{{selector}}}"))))
    assert told["GW107"] == message
    assert repair in told["GR112"]


def test_an_affinity_that_matches_nothing_is_said_row_by_row() -> None:
    rows = "{key: gpu, operator: In, values: [a100, a10]}"
    terms = f"{{nodeSelectorTerms: [{{matchExpressions: [{rows}]}}]}}"
    affinity = f"nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {terms}}}"
    told = said(decided(compiled(pool("h100", 16), job("asks", 2, pod=f", affinity: {{{affinity}}}"))))
    assert told["GW107"] == "no node has gpu in (a100, a10), as role worker demands; did you mean h100 (16 nodes)?"
    assert told["GR112"].endswith("as well: nodeAffinity gpu in (a100, a10, h100)")
