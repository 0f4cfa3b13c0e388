"""PodGroups that keep apart by topology (Volcano 1.16): in one plan, next to those that run, and one-sided."""

from __future__ import annotations

from typing import Any

from compiler.outcome import Outcome
from tests.builders.volcano_1_16 import actions, cluster_1_16, patched_1_16, planned_1_16, running_pod, tree_1_16

RACKS_OF_TWO = (
    "{count: 4, capacity: {cpu: 64, nvidia.com/gpu: 8}, topology: [{name: rack, size: 2}, {name: spine, size: 2}]}"
)
CLUSTER = cluster_1_16({"gpu": RACKS_OF_TWO}, "group-topology-affinity")
STRAY = """\
---
apiVersion: v1
kind: Node
metadata: {name: stray}
status: {allocatable: {cpu: 64, nvidia.com/gpu: 64}}
"""
TERM = "{podGroupSelector: {matchLabels: {app: llama}}, topologyTierName: rack}"
RACKS = ({"gpu-0", "gpu-1"}, {"gpu-2", "gpu-3"})


def group(
    name: str,
    *,
    pods: int = 2,
    gpus: int = 2,
    term: str = TERM,
    namespace: str = "ml",
    app: str = "llama",
    sort: str = "required",
) -> str:
    """A PodGroup with its pods; term: its only one, of this sort, "" for none."""
    written = f"  topologyAffinity: {{podGroupAntiAffinity: {{{sort}: [{term}]}}}}\n" if term else ""
    parts = [
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
        f"metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {app}}}}}\n"
        f"spec:\n  minMember: {pods}\n{written}"
    ]
    parts += [
        "apiVersion: v1\nkind: Pod\nmetadata:\n"
        f"  name: {name}-{index}\n  namespace: {namespace}\n"
        f"  annotations: {{scheduling.k8s.io/group-name: {name}}}\n"
        "spec:\n  schedulerName: volcano\n  restartPolicy: Never\n"
        f"  containers: [{{name: m, image: a, resources: {{limits: {{cpu: 1, nvidia.com/gpu: {gpus}}}}}}}]\n"
        for index in range(pods)
    ]
    return "---\n".join(parts)


def running(name: str, *nodes: str, app: str = "llama", gpus: int = 2) -> list[dict[str, Any]]:
    """The objects of a PodGroup that runs, as the cluster has them."""
    metadata = {"name": name, "namespace": "ml", "labels": {"app": app}}
    annotations = {"scheduling.k8s.io/group-name": name}
    return [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": {}},
        *(running_pod(f"{name}-{index}", node, gpus, annotations) for index, node in enumerate(nodes)),
    ]


def planned(*groups: str, state: list[dict[str, Any]] | None = None, cluster: str = CLUSTER) -> Outcome:
    return planned_1_16(*groups, cluster=cluster, state=state)


def racks(outcome: Outcome) -> dict[str, set[int]]:
    """Gang -> the racks that its pods are in."""
    assert outcome.problem is not None
    assert outcome.plan is not None
    problem = outcome.problem
    return {
        problem.gangs[decision.gang].name.removeprefix("ml/"): {
            rack for rack, names in enumerate(RACKS) for p in decision.placements if problem.nodes[p.node].name in names
        }
        for decision in outcome.plan.decisions
        if decision.placements
    }


def codes(outcome: Outcome) -> set[str]:
    return {each.code for each in outcome.diagnostics}


def test_groups_that_start_get_a_rack_each_and_the_third_waits() -> None:
    outcome = planned(group("a"), group("b"), group("c"))
    assert sorted(actions(outcome).values()) == ["start", "start", "wait"]
    first, second = racks(outcome).values()
    assert sorted((*first, *second)) == [0, 1]
    assert not codes(outcome) & {"GP442", "GP444", "GP430"}


def test_a_group_starts_where_no_other_one_runs() -> None:
    outcome = planned(group("a"), group("b"), state=running("a", "gpu-2", "gpu-2"))
    assert racks(outcome) == {"a": {1}, "b": {0}}


def test_groups_that_wait_alike_have_each_its_own_term_as_reason() -> None:
    outcome = planned(
        group("a"), group("b"), group("c", gpus=1), state=[*running("x", "gpu-0"), *running("y", "gpu-3")]
    )
    found = {decision.name: decision.reasons for decision in outcome.decisions}
    assert [(name, [each.code for each in found[name]]) for name in sorted(found)] == [
        (name, ["GW117"]) for name in ("ml/a", "ml/b", "ml/c")
    ]
    sources = [source.short_text for reasons in found.values() for reason in reasons for source in reason.sources]
    assert sources == [f"jobs/{number}.yaml:6 anti-affinity" for number in range(3)]


def test_groups_that_the_repository_does_not_know_close_their_racks_too() -> None:
    state = [*running("x", "gpu-0"), *running("y", "gpu-3")]
    outcome = planned(group("a"), state=state)
    (decision,) = outcome.decisions
    assert decision.action == "wait"
    (reason,) = decision.reasons
    assert (reason.code, reason.never) == ("GW117", False)
    assert reason.message == (
        "no domain that its PodGroup may use has room: required anti-affinity by rack to PodGroups with app=llama"
    )
    assert [source.short_text for source in reason.sources] == ["jobs/0.yaml:6 anti-affinity"]
    soft = next(repair for repair in decision.repairs if repair.code == "GR126")
    assert soft.message == "preferred instead of required terms in podGroupAntiAffinity of its PodGroup"
    assert [source.short_text for source in soft.sources] == ["jobs/0.yaml:6 anti-affinity"]
    wished = patched_1_16(outcome, tree_1_16(group("a"), cluster=CLUSTER), "GR126", state)
    assert actions(wished) == {"a": "start"}
    assert "GP442" not in codes(wished)
    assert actions(planned(group("a"), state=running("x", "gpu-0"))) == {"a": "start"}
    assert actions(planned(group("a"), state=[*running("x", "gpu-0"), *running("y", "gpu-3", app="other")])) == {
        "a": "start"
    }


def test_a_group_that_runs_keeps_nobody_away_but_one_that_starts_does() -> None:
    """One-sided terms, as in Volcano: who starts first is open in a plan, so that both of one plan keep apart."""
    wide, plain = group("a"), group("b", pods=4, gpus=4, term="")
    assert sorted(actions(planned(wide, group("b", pods=3, gpus=8, term=""))).values()) == ["start", "wait"]
    found = racks(planned(wide, plain))
    assert found["a"].isdisjoint(found["b"])
    outcome = planned(wide, group("b", pods=2, gpus=8, term="", app="llama"), state=running("a", "gpu-0", "gpu-0"))
    assert actions(outcome) == {"a": "keep", "b": "start"}
    full = [*running("a", "gpu-0", "gpu-0"), *running("x", "gpu-2", "gpu-3", gpus=8, app="other")]
    outcome = planned(wide, group("b", pods=1, gpus=4, term=""), state=full)
    assert racks(outcome) == {"a": {0}, "b": {0}}
    assert "GP444" in codes(outcome)


def test_a_group_lies_in_one_domain_of_the_tier_of_its_term() -> None:
    outcome = planned(group("a", pods=3, gpus=8))
    (decision,) = outcome.decisions
    assert decision.action == "wait"
    (reason,) = decision.reasons
    assert (reason.code, reason.never) == ("GW104", True)
    assert "jobs/0.yaml:6 anti-affinity" in [source.short_text for source in reason.sources]
    assert "GR126" in {repair.code for repair in decision.repairs}
    assert actions(planned(group("a", pods=3, gpus=8, term=TERM.replace("rack", "spine")))) == {"a": "start"}


def test_nodes_outside_the_tier_are_closed() -> None:
    """The stray node has room for all, but is in no rack."""
    alone, big = group("a", gpus=8), group("a", pods=1, gpus=16)
    assert racks(planned(alone, cluster=CLUSTER + STRAY)).keys() == {"a"}
    assert racks(planned(alone, cluster=CLUSTER + STRAY))["a"]
    outcome = planned(big, cluster=CLUSTER + STRAY)
    assert actions(outcome) == {"a": "wait"}
    assert actions(planned(group("a", pods=1, gpus=16, term=""), cluster=CLUSTER + STRAY)) == {"a": "start"}


def test_a_tier_that_no_hypernode_has_lets_nothing_start() -> None:
    outcome = planned(group("a", term=TERM.replace("rack", "row")))
    (decision,) = outcome.decisions
    (reason,) = decision.reasons
    assert (decision.action, reason.code, reason.never) == ("wait", "GW117", True)
    assert reason.message.startswith("it never starts with required anti-affinity by row")
    assert [each.message for each in outcome.diagnostics if each.code == "GP444"] == [
        "no hypernode has tierName 'row': a required term lets nothing start"
    ]


def test_without_the_plugin_or_in_an_earlier_release_nothing_keeps_apart() -> None:
    without = CLUSTER.replace(", {name: group-topology-affinity}", "")
    outcome = planned(group("a"), group("b"), group("c"), cluster=without)
    assert set(actions(outcome).values()) == {"start"}
    assert "GP444" in codes(outcome)
    assert outcome.problem is not None
    assert outcome.problem.pod_rules == ()


def test_terms_select_in_the_own_namespace_in_all_or_by_labels() -> None:
    def starts(term: str, namespaces: str = "") -> int:
        other = group("b", namespace="web", term="")
        third = group("c", namespace="web", term="")
        outcome = planned(group("a", term=term, gpus=1), other, third, cluster=CLUSTER + namespaces)
        rules = outcome.problem.pod_rules if outcome.problem else ()
        gangs = outcome.problem.gangs if outcome.problem else ()
        assert len(rules) == 1
        return sum(0 in role.selecting_rules for gang in gangs for role in gang.roles)

    def by(selector: str) -> str:
        return TERM.replace("topologyTierName", f"namespaceSelector: {selector}, topologyTierName")

    assert starts(TERM) == 0
    assert starts(by("{}")) == 2
    assert starts(by("{matchLabels: {kubernetes.io/metadata.name: web}}")) == 2
    assert starts(by("{matchLabels: {team: web}}")) == 0
    assert starts(by("{matchLabels: {team: web}}"), "---\n" + NAMESPACE) == 2


NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: web, labels: {team: web}}\n"


def test_labels_of_a_volcano_job_are_those_of_its_group() -> None:
    job = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j, namespace: ml, labels: {app: llama}}
spec:
  minAvailable: 4
  tasks:
  - {name: w, replicas: 4, template: {spec: {restartPolicy: Never, containers: [
      {name: m, image: a, resources: {limits: {cpu: 1, nvidia.com/gpu: 8}}}]}}}
"""
    assert sorted(actions(planned(job, group("a", gpus=1))).values()) == ["start", "wait"]
    outcome = planned(job.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 4"), group("a"))
    found = racks(outcome)
    assert found["j"].isdisjoint(found["a"])


# ---- preferred terms


def wishing(name: str, *, weight: int = 100, tier: str = "rack", **others: Any) -> str:
    return group(name, term=f"{{weight: {weight}, {TERM[1:]}".replace("rack", tier), sort="preferred", **others)


def company(outcome: Outcome) -> list[tuple[float, str]]:
    """Value and verdict of the goal, of each batch that has it."""
    objectives = [each for batch in outcome.plan.batches for each in batch.objectives] if outcome.plan else []
    return [(each.value, each.verdict) for each in objectives if each.name == "separations"]


def test_groups_that_prefer_to_keep_apart_do_so_and_the_third_starts_too() -> None:
    outcome = planned(wishing("a"), wishing("b"))
    assert sorted(map(sorted, racks(outcome).values())) == [[0], [1]]
    assert company(outcome) == [(0, "proven")]
    assert not codes(outcome) & {"GP430", "GP444"}
    outcome = planned(wishing("a"), wishing("b"), wishing("c", weight=40))
    assert set(actions(outcome).values()) == {"start"}
    assert company(outcome) == [(140, "proven")]


def test_a_preferred_term_is_judged_beside_what_runs_and_what_is_foreign() -> None:
    assert racks(planned(wishing("a"), wishing("b"), state=running("a", "gpu-2", "gpu-2"))) == {"a": {1}, "b": {0}}
    assert racks(planned(wishing("a"), state=running("x", "gpu-0")))["a"] == {1}
    assert racks(planned(wishing("a"), state=running("x", "gpu-0", app="other")))["a"] == {0}
    crowded = [*running("x", "gpu-0"), *running("y", "gpu-3")]
    assert company(planned(wishing("a"), state=crowded)) == [(100, "proven")]


def test_the_lesser_wish_gives_way() -> None:
    """Two selected groups hold a rack each; the terms differ in weight."""
    terms = "{{weight: {}, podGroupSelector: {{matchLabels: {{app: {}}}}}, topologyTier: 1}}"
    state = [*running("x", "gpu-0", app="one"), *running("y", "gpu-3", app="two")]
    for one, two, rack in ((90, 10, 1), (10, 90, 0)):
        both = f"{terms.format(one, 'one')}, {terms.format(two, 'two')}"
        assert racks(planned(group("a", term=both, sort="preferred"), state=state))["a"] == {rack}


def test_a_preferred_term_that_decides_nothing_plans_as_without() -> None:
    without = CLUSTER.replace(", {name: group-topology-affinity}", "")
    nothing = CLUSTER.replace("group-topology-affinity}", "group-topology-affinity, arguments: {weight: 0}}")
    unordered = CLUSTER.replace("group-topology-affinity}", "group-topology-affinity, enabledHyperNodeOrder: false}")
    for cluster in (without, nothing, unordered):
        outcome = planned(wishing("a"), wishing("b"), cluster=cluster)
        assert company(outcome) == []
        assert [*racks(outcome).values()] == [{0}, {0}]
    outcome = planned(wishing("a", tier="row"), wishing("b", tier="row"))
    assert company(outcome) == []
    assert "no hypernode has tierName 'row': a preferred term does nothing" in [
        each.message for each in outcome.diagnostics if each.code == "GP444"
    ]
