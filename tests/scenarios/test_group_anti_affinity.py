"""PodGroups that keep apart by topology (Volcano 1.16): in one plan, beside those that run, and one-sided."""

from __future__ import annotations

from typing import Any

from compiler.cluster_state.cluster_state import ClusterState
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository

CLUSTER = """\
apiVersion: gangplan.dev/v1alpha1
kind: Cluster
metadata: {name: test}
spec: {volcano: "1.16"}
---
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata: {name: gpu}
spec:
  count: 4
  capacity: {cpu: 64, nvidia.com/gpu: 8}
  topology: [{name: rack, size: 2}, {name: spine, size: 2}]
---
apiVersion: gangplan.dev/v1alpha1
kind: SchedulerConfiguration
metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}
spec:
  actions: [enqueue, allocate]
  tiers:
  - plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: capacity}, {name: group-topology-affinity}]
"""
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
    name: str, *, pods: int = 2, gpus: int = 2, term: str = TERM, namespace: str = "ml", app: str = "llama"
) -> str:
    """A PodGroup with its pods; term: its required one, "" for none."""
    written = f"  topologyAffinity: {{podGroupAntiAffinity: {{required: [{term}]}}}}\n" if term else ""
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
    found: list[dict[str, Any]] = [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": {}}
    ]
    for index, node in enumerate(nodes):
        container = {"name": "m", "image": "a", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": str(gpus)}}}
        annotations = {"scheduling.k8s.io/group-name": name}
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{name}-{index}", "namespace": "ml", "annotations": annotations},
                "spec": {"schedulerName": "volcano", "nodeName": node, "containers": [container]},
                "status": {"phase": "Running"},
            }
        )
    return found


def planned(*groups: str, state: list[dict[str, Any]] | None = None, cluster: str = CLUSTER) -> Outcome:
    files = {"cluster-specs/test/cluster.yaml": cluster}
    files |= {f"jobs/{number}.yaml": text for number, text in enumerate(groups)}
    tree = Repository({path: text.encode() for path, text in files.items()})
    outcome = compile_repository(tree, state=ClusterState.from_objects(state) if state else None)
    assert [each.message for each in outcome.diagnostics if each.severity == "error"] == []
    return outcome


def actions(outcome: Outcome) -> dict[str, str]:
    return {decision.name.removeprefix("ml/"): decision.action for decision in outcome.decisions}


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
