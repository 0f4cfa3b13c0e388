"""Reasons that a person can act on: what is told names the cause and the value to type, and typing it helps."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.emit.repaired_files import edited_by_repairs
from compiler.outcome import JobDecision, Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.views.explanation import explanation_text
from tests.builders.advice import assert_advice
from tests.builders.beside import beside

CASES = beside(__file__)


@pytest.mark.parametrize("case", CASES)
def test_advice(case: str) -> None:
    assert_advice(CASES[case])


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


def tree_of(*documents: str) -> Repository:
    return Repository({"cluster-specs/c/all.yaml": "---\n".join((CLUSTER, *documents)).encode()})


def compiled(*documents: str, errors: int = 0, state: ClusterState | None = None) -> Outcome:
    made = compile_repository(tree_of(*documents), state=state)
    assert made.ok, made.diagnostics
    assert made.error_count == errors, made.diagnostics
    return made


def repaired(*documents: str, code: str) -> JobDecision:
    """What is decided on the job that asks once the patch of its repair is applied."""
    made, tree = compiled(*documents), tree_of(*documents)
    found = {message.code: files for message, files in edited_by_repairs(made, decided(made), tree)}
    patched = found[code]
    assert patched is not None
    return decided(compile_repository(tree.with_files(patched)))


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


def test_the_repair_of_a_capability_names_the_gangs_that_would_use_it_first() -> None:
    first = job("asks", 3, spec=", queue: q"), job("second", 3, spec=", queue: q")
    others = job("small", 3, spec=", queue: q, minAvailable: 3"), job("large", 4, spec=", queue: q")
    made = compiled(pool("h100", 4), *first, *others, queue("q", "capability: {nvidia.com/gpu: 16}"))
    repairs = {d.gang.document.name: r for d in made.decisions for r in d.repairs if r.code == "GR101"}
    assert repairs["asks"].message == "capability 24 nvidia.com/gpu for queue q, 8 more"
    assert (
        repairs["large"].message
        == "capability 32 nvidia.com/gpu for queue q, 16 more; team/asks waits for it too and comes first"
    )
    assert repairs["second"].message.endswith("team/asks waits for it too and comes first")
    assert repairs["small"].facts["gangs"] == ("team/asks", "team/second")


def test_a_resource_that_no_node_has_is_likened_to_one_that_some_have() -> None:
    jobs = job("asks", 1, gpu="nvidia.com/gpus: 8"), job("odd", 1, gpu="example.com/fpga: 1")
    made = compiled(pool("h100", 2), *jobs, errors=1)
    (error,) = (each for each in made.diagnostics if each.severity == "error")
    assert (error.code, error.object, error.help) == ("GP392", "Job team/asks", "did you mean 'nvidia.com/gpu'?")
    assert (
        said(decided(made, "odd"))["GW103"] == "no node has example.com/fpga, of which a pod of role worker asks for 1"
    )


TAINT = ", taints: [{key: dedicated, value: a100, effect: NoSchedule}]"
TOLERATION = "{key: dedicated, operator: Equal, value: a100, effect: NoSchedule}"


def priority_class(name: str, value: int) -> str:
    return f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\n"


@pytest.mark.parametrize(("other", "least", "named"), [("also", 1001, "top"), ("second", 1000, "low")])
def test_the_repaired_priority_is_the_least_that_suffices_and_names_the_gangs_that_would_wait(
    other: str, least: int, named: str
) -> None:
    """Of jobs that came at the same time the first by name is the older: it needs no more than the other's priority,
    where both ask for the same."""
    classes = priority_class("low", 1000), priority_class("top", 10000)
    others = (job("first", 2, spec=", priorityClassName: top"), job(other, 2, spec=", priorityClassName: low"))

    def asks(name: str) -> str:
        return job("asks", 2, spec=f", priorityClassName: {name}")

    base = (pool("h100", 4), priority_class("none", 0), *others)
    (repair,) = (r for r in decided(compiled(*base, *classes, asks("none"))).repairs if r.code == "GR114")
    assert repair.message == f"priorityClassName {named} ({least} or more suffices); team/{other} would wait instead"
    facts = repair.facts["amount"], repair.facts["class"], repair.facts["gangs"]
    assert facts == (least, named, (f"team/{other}",))
    for value, action in ((least, "start"), (least - 1, "wait")):
        made = compiled(*base, *classes, priority_class("mid", value), asks("mid"))
        assert [decided(made, name).action for name in ("first", "asks")] == ["start", action]


SCHEDULER = (
    "apiVersion: gangplan.dev/v1alpha1\nkind: SchedulerConfiguration\nmetadata: {name: volcano-scheduler-configmap}\n"
    "spec: {actions: [enqueue, allocate], tiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity}]}]}\n"
)


def test_a_job_that_would_borrow_is_told_what_its_queue_is_entitled_to() -> None:
    deserves = "deserved: {{nvidia.com/gpu: {}}}"
    others = [job(f"b{n}", 1, spec=", queue: b") for n in range(2)]
    asks = job("asks", 3, spec=", queue: a, priorityClassName: top")

    def made(amount: int) -> Outcome:
        queues = queue("a", deserves.format(amount)), queue("b", deserves.format(16))
        return compiled(SCHEDULER, pool("h100", 4), priority_class("top", 1000), *queues, *others, asks)

    decision = decided(made(16))
    told = said(decision)
    assert "GW105" not in told
    assert told["GW124"] == (
        "it would borrow: queue a is entitled to 16 nvidia.com/gpu and holds 0; the job asks for 24, and what is free "
        "goes first to what queues are entitled to, then to those with lower shares: team/b1"
    )
    assert "GR114" not in told  # across queues no priority helps


def test_a_job_that_would_borrow_is_told_what_its_queue_must_deserve() -> None:
    """Queue b has the lower share, and takes with b2 and b3 what is free."""
    jobs = job("a1", 1, spec=", queue: a, priorityClassName: top"), job("asks", 2, spec=", queue: a")
    others = [priority_class("top", 1), *(job(f"b{n}", 1, spec=", queue: b") for n in range(4))]

    def made(amount: int) -> Outcome:
        queues = queue("a", f"deserved: {{nvidia.com/gpu: {amount}}}"), queue("b", "deserved: {nvidia.com/gpu: 17}")
        return compiled(SCHEDULER, pool("h100", 5), pool("small", 1, gpus=1), *queues, *jobs, *others)

    told = said(decided(made(8)))
    assert told["GW124"].endswith("to those with lower shares: team/b2, team/b3")
    assert told["GR124"] == ("deserved 24 nvidia.com/gpu for queue a instead of 8; team/b2, team/b3 would wait instead")
    assert [decided(made(amount)).action for amount in (8, 24)] == ["wait", "start"]


def supernodes(*names: str) -> str:
    """Two tiers: supernodes of the two nodes of the pool of each name, under one hypernode."""
    tiers = [(name, 1, "Node", [f"{name}-0", f"{name}-1"]) for name in names] + [("top", 2, "HyperNode", list(names))]
    return "---\n".join(
        f"apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {{name: {name}}}\nspec: {{tier: {tier}, "
        f"members: [{', '.join(f'{{type: {kind}, selector: {{exactMatch: {{name: {m}}}}}}}' for m in members)}]}}\n"
        for name, tier, kind, members in tiers
    )


@pytest.mark.parametrize("capability", ["", "capability: {nvidia.com/gpu: 16}"])
def test_pods_too_large_in_a_domain_too_small_are_told_both_changes(capability: str) -> None:
    """Three pods of 12 GPUs in supernodes of two nodes of 8: smaller pods alone would not do."""
    tier, full = ", queue: q, networkTopology: {{mode: hard, highestTierAllowed: {}}}", queue("q", capability)
    documents = pool("a", 2), pool("b", 2), supernodes("a", "b")
    made = compiled(*documents, full, job("asks", 3, spec=tier.format(1), gpu="nvidia.com/gpu: 12"))
    told = [{repair.code, *(other.code for other in repair.also)} for repair in decided(made).repairs]
    assert ({"GR115", "GR102", "GR101"} if capability else {"GR115", "GR102"}) in told
    larger = queue("q", capability and "capability: {nvidia.com/gpu: 24}")
    again = compiled(*documents, larger, job("asks", 3, spec=tier.format(2), gpu="nvidia.com/gpu: 8"))
    assert decided(again).action == "start"


def test_all_that_a_job_needs_is_told_together_and_typed_it_starts() -> None:
    """A misspelt label, pods larger than any node, a domain and a queue that are too small: no two changes suffice."""
    hard = ", queue: q, networkTopology: {mode: hard, highestTierAllowed: 1}"
    asks = job("asks", 3, spec=hard, pod=", nodeSelector: {gpu: A}", gpu="nvidia.com/gpu: 12")
    nodes = pool("a", 4, more=", topology: [{name: sn, size: 2}, {name: top, size: 4}]")
    documents = nodes, queue("q", "capability: {nvidia.com/gpu: 16}"), asks
    told = decided(compiled(*documents)).repairs
    assert [each.code for each in (told[0], *told[0].also)] == ["GR112", "GR115", "GR102", "GR101"]
    assert told[0].message == (
        "(1) let role worker use nodes like a-0 as well: nodeSelector gpu: a, "
        "(2) 8 nvidia.com/gpu for a pod of role worker instead of 12, (3) highestTierAllowed: 2, "
        "(4) capability 24 nvidia.com/gpu for queue q, 8 more"
    )
    assert repaired(*documents, code=told[0].code).action == "start"


RULES = {
    "affinity": "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
    "[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: cache}}}]}}",
    "spread": "topologySpreadConstraints: [{maxSkew: 1, topologyKey: gpu, whenUnsatisfiable: DoNotSchedule, "
    "labelSelector: {matchLabels: {app: asks}}}]",
}


@pytest.mark.parametrize("rule", RULES)
def test_the_end_of_jobs_is_no_help_where_they_bring_no_pods_that_a_rule_asks_for(rule: str) -> None:
    asks = job("asks", 4, pod=f", {RULES[rule]}").replace(
        "{spec: {restart", "{metadata: {labels: {app: asks}}, spec: {restart"
    )
    decision = decided(compiled(pool("h100", 3), pool("a100", 1), asks))
    assert {reason.code for reason in decision.reasons} == {"GW117"}
    assert "GR103" not in said(decision)


def test_an_elastic_job_is_told_the_fewest_pods_that_it_needs() -> None:
    second = ", tasks: [{name: ps, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}, "
    both = job("both", 4, spec=", minAvailable: 4").replace(", tasks: [", second)
    made = compiled(pool("h100", 6), job("one", 4, spec=", minAvailable: 2"), both)
    texts = {name: explanation_text(made, decided(made, name)) for name in ("one", "both")}
    assert "needs 2 to 4 pods of 8 nvidia.com/gpu" in texts["one"]
    assert "needs 3 to 4 pods of 8 nvidia.com/gpu" in texts["both"]
    assert "needs at least 4 pods in all" in texts["both"]
    assert "in all" not in texts["one"]


def test_alternatives_of_an_affinity_that_match_nothing_are_each_likened_to_what_is_there() -> None:
    def asks(*values: str, key: str = "gpu") -> str:
        row = "{{matchExpressions: [{{key: {}, operator: In, values: [{}]}}]}}"
        terms = f"{{nodeSelectorTerms: [{', '.join(row.format(key, value) for value in values)}]}}"
        affinity = f"nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {terms}}}"
        return job("asks", 2, pod=f", affinity: {{{affinity}}}")

    pools = pool("h100", 16), pool("b200", 2)
    told = said(decided(compiled(*pools, asks("h10", "b20"))))
    assert told["GW107"] == (
        "no node has gpu=h10 or gpu=b20, as role worker demands; did you mean h100 (16 nodes) or b200 (2 nodes)?"
    )
    assert told["GR112"].endswith("as well: nodeAffinity gpu in (h10, b200)")
    assert decided(compiled(*pools, asks("h10, b200", "b20"))).action == "start"
    told = said(decided(compiled(*pools, asks("v5", "h100x", key="gpus"))))
    assert told["GW107"].endswith("as role worker demands; did you mean the label gpu?")
    told = said(decided(compiled(*pools, asks("v5", "v6"))))
    assert told["GW107"].endswith("as role worker demands; there is h100 (16 nodes), b200 (2 nodes)")


def test_every_taint_that_needs_a_toleration_is_named_and_no_other() -> None:
    taints = ", taints: [{key: gpu, effect: NoSchedule}, {key: team, value: a, effect: NoExecute}]"
    made = compiled(pool("h100", 1, more=taints), job("asks", 1))
    (finding,) = (finding for finding in made.diagnostics if finding.code == "GP394")
    assert (finding.message.partition("tolerate: ")[2], finding.help) == ("gpu, team", "tolerate gpu and team")
    assert said(decided(made))["GW107"] == (
        "there is 1 node; it has taints gpu:NoSchedule and team=a:NoExecute, which role worker does not tolerate"
    )
    made = compiled(pool("h100", 1, more=taints), job("asks", 1, pod=", tolerations: [{key: gpu, operator: Exists}]"))
    (finding,) = (finding for finding in made.diagnostics if finding.code == "GP394")
    assert (finding.message.partition("tolerate: ")[2], finding.help) == ("team", "tolerate team")


def test_one_is_said_as_one() -> None:
    made = compiled(pool("h100", 1), pool("a100", 1, more=TAINT), job("asks", 2), job("none", 1, gpu=""))
    assert said(decided(made))["GW120"].startswith("the 1 node that role worker may use holds 1 of 2 pods, even empty")
    assert "needs 1 pod that asks for nothing" in explanation_text(made, decided(made, "none"))


PROPORTION = SCHEDULER.replace("capacity", "proportion")


def test_a_share_by_weight_is_told_its_least_repairs_each_alone() -> None:
    def made(pods: int = 8, nodes: int = 12, weight: int = 1) -> JobDecision:
        queues = queue("a", "weight: 1"), queue("b", f"weight: {weight}")
        one = "nvidia.com/gpu: 1"
        others = [job(f"a{n}", 1, spec=", queue: a", gpu=one) for n in range(8)]
        asks = job("asks", pods, spec=", queue: b", gpu=one)
        return decided(compiled(PROPORTION, pool("n", nodes, gpus=1), *queues, *others, asks))

    told = said(made())
    assert told["GW112"].startswith("queue b deserves 6 nvidia.com/gpu by its weight")
    assert told["GR105"] == "4 pods of role worker instead of 8"
    assert told["GR110"] == (
        "weight 2 instead of 1 for queue b; team/a4, team/a5, team/a6 and 1 more would wait instead"
    )
    changed = [made(pods=4), made(weight=2)]
    assert [decision.action for decision in changed] == ["start", "start"]


def test_more_nodes_of_a_share_by_weight_are_not_told_where_they_make_it_too_small() -> None:
    """On 5 nodes the other queue's larger job counts as well, so that queue b deserves half of them."""
    queues = queue("a", "weight: 3"), queue("b", "weight: 3")
    others = job("a0", 2, spec=", queue: a", gpu="nvidia.com/gpu: 4"), job("a1", 2, spec=", queue: a")
    mine = job("b0", 1, spec=", queue: b"), job("asks", 3, spec=", queue: b")

    def made(nodes: int) -> JobDecision:
        return decided(compiled(PROPORTION, pool("n", nodes), *queues, *others, *mine))

    assert "GR104" not in {repair.code for repair in made(2).repairs if not repair.also}
    assert made(5).action == "wait"


_BY_NAME = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [%s]}}}"


@pytest.mark.parametrize(
    ("pod", "helps"),
    [
        ("nodeName: h100-1", False),
        ("nodeSelector: {kubernetes.io/hostname: h100-1}", False),
        (_BY_NAME % "{matchFields: [{key: metadata.name, operator: In, values: [h100-1]}]}", False),
        (_BY_NAME % "{matchExpressions: [{key: kubernetes.io/hostname, operator: NotIn, values: [h100-1]}]}", True),
        ("nodeSelector: {gpu: h100}", True),
    ],
)
def test_more_nodes_are_no_help_to_pods_that_name_theirs(pod: str, helps: bool) -> None:
    made = compiled(pool("h100", 2), job("asks", 3, pod=f", {pod}"))
    assert decided(made).action == "wait"
    assert ("GR104" in said(decided(made))) is helps
