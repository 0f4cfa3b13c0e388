"""From affinity, anti-affinity and spread to the problem's relations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compiler.cluster_state.cluster_state import ClusterState
from compiler.lower.lowering import lower
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec
from compiler.specs.gang_spec import RoleSpec
from compiler.specs.pod_spec import Expression, NodeSelectorTerm, PodRuleSpec, PodSelector, Taint, Toleration
from solver.problem import Problem
from tests.builders import cluster_objects
from tests.builders.specs import document, gang, node, role, specs

HOST = "kubernetes.io/hostname"
WEB = PodSelector((("app", "In", ("web",)),))


def zoned(*zones: str | None) -> tuple[Any, ...]:
    return tuple(node(f"n{n}", labels={} if zone is None else {"zone": zone}) for n, zone in enumerate(zones))


def web(name: str, replicas: int, *rules: PodRuleSpec, labels: dict[str, str] | None = None, **pod: Any) -> RoleSpec:
    return replace(role(name, replicas, pod_rules=rules, **pod), labels={"app": "web"} if labels is None else labels)


def lowered(
    *gangs: Any, nodes: tuple[Any, ...] = zoned("a", "a", "b"), pods: list[dict[str, Any]] | None = None, **more: Any
) -> Problem:
    return lower(specs(nodes=nodes, gangs=gangs, **more), ClusterState.from_objects(pods or ()))[0]


def pod(
    name: str, at: str, namespace: str = "team", anti: list[Any] | None = None, leaving: bool = False, **labels: str
) -> dict[str, Any]:
    more: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}
    rules = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": anti}}} if anti else {}
    return cluster_objects.pod(name, at, namespace=namespace, labels=labels, spec=rules, **more)


def test_anti_affinity_by_hostname_is_a_pod_rule_over_single_nodes() -> None:
    problem = lowered(gang("a", web("w", 2, PodRuleSpec("anti-affinity", HOST, (WEB,)))))
    (relation,) = problem.pod_rules
    assert (relation.rule_kind, relation.domains, relation.selected_present, relation.owners_present) == (
        "anti-affinity",
        (0, 1, 2),
        (0, 0, 0),
        (),
    )
    assert (problem.gangs[0].roles[0].owned_rules, problem.gangs[0].roles[0].selecting_rules) == ((0,), (0,))


def test_a_selector_counts_the_roles_of_other_jobs_in_the_namespace() -> None:
    other = replace(
        gang("c", web("w", 1)), document=document("Job", "c", "elsewhere", "batch.volcano.sh/v1alpha1", spec={})
    )
    problem = lowered(
        gang("a", web("w", 1, PodRuleSpec("anti-affinity", "zone", (WEB,)), labels={})), gang("b", web("w", 1)), other
    )
    assert [g.roles[0].owned_rules for g in problem.gangs] == [(0,), (), ()]
    assert [g.roles[0].selecting_rules for g in problem.gangs] == [(), (0,), ()]


def test_namespaces_by_name_or_all() -> None:
    other = replace(
        gang("c", web("w", 1)), document=document("Job", "c", "elsewhere", "batch.volcano.sh/v1alpha1", spec={})
    )
    for namespaces in (("elsewhere",), None):
        term = replace(WEB, namespaces=namespaces)
        problem = lowered(gang("a", web("w", 1, PodRuleSpec("anti-affinity", "zone", (term,)), labels={})), other)
        assert problem.gangs[1].roles[0].selecting_rules == (0,)


def test_a_selector_that_is_missing_matches_no_pod() -> None:
    problem = lowered(gang("a", web("w", 1, PodRuleSpec("affinity", "zone", (PodSelector(None),)))))
    assert problem.gangs[0].roles[0].selecting_rules == ()


def test_keys_to_match_narrow_the_selector_to_pods_alike() -> None:
    term = replace(WEB, match_label_keys=("version", "missing"))
    rule = PodRuleSpec("anti-affinity", "zone", (term,))
    new, old = {"app": "web", "version": "2"}, {"app": "web", "version": "1"}
    problem = lowered(
        gang("a", web("w", 1, rule, labels=new)), gang("b", web("w", 1, labels=old)), gang("c", web("w", 1, labels=new))
    )
    assert [g.roles[0].selecting_rules for g in problem.gangs] == [(0,), (), (0,)]


def test_all_terms_of_an_affinity_ask_for_the_same_pods() -> None:
    both = (WEB, PodSelector((("tier", "Exists", ()),)))
    rules = (PodRuleSpec("affinity", HOST, both), PodRuleSpec("affinity", "zone", both))
    problem = lowered(gang("a", web("w", 1, *rules)), gang("b", web("w", 1, labels={"app": "web", "tier": "x"})))
    assert [g.roles[0].selecting_rules for g in problem.gangs] == [(), (0, 1)]


def test_pods_of_others_are_counted_where_they_are() -> None:
    pods = [
        pod("x", "n0", app="web"),
        pod("y", "n1", app="web"),
        pod("z", "n2", app="db"),
        pod("e", "n2", namespace="other", app="web"),
    ]
    problem = lowered(gang("a", web("w", 1, PodRuleSpec("anti-affinity", "zone", (WEB,)))), pods=pods)
    assert problem.pod_rules[0].selected_present == (2, 0)


def test_a_spread_no_longer_counts_pods_that_are_being_deleted() -> None:
    pods = [pod("x", "n0", leaving=True, app="web")]
    for kind, present in (("spread", (0, 0)), ("anti-affinity", (1, 0))):
        problem = lowered(gang("a", web("w", 1, PodRuleSpec(kind, "zone", (WEB,)))), pods=pods)  # type: ignore[arg-type]
        assert problem.pod_rules[0].selected_present == present


def test_the_anti_affinity_of_others_keeps_our_pods_away() -> None:
    anti = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]
    problem = lowered(gang("a", web("w", 1)), pods=[pod("x", "n0", anti=anti, app="db")])
    (relation,) = problem.pod_rules
    assert (relation.rule_kind, relation.domains, relation.owners_present) == ("anti-affinity", (0, 0, 1), (1, 0))
    assert (problem.gangs[0].roles[0].owned_rules, problem.gangs[0].roles[0].selecting_rules) == ((), (0,))


def test_the_anti_affinity_of_others_that_counts_none_of_ours_is_left_out() -> None:
    anti = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]
    assert lowered(gang("a", web("w", 1)), pods=[pod("x", "n0", anti=anti, app="db")]).pod_rules == ()


def test_a_spread_leaves_out_nodes_without_the_label_and_those_that_the_pod_could_not_use() -> None:
    nodes = (
        node("n0", labels={"zone": "a"}),
        node("n1", labels={"zone": "b", "old": "yes"}),
        node("n2", labels={}),
        node("n3", labels={"zone": "c"}, taints=(Taint("busy", "", "NoSchedule"),)),
    )
    away = (NodeSelectorTerm((Expression("old", "DoesNotExist"),)),)
    for minds, domains in (
        ({}, (0, None, None, 1)),
        ({"honors_affinity": False}, (0, 1, None, 2)),
        ({"honors_taints": True}, (0, None, None, None)),
    ):
        problem = lowered(
            gang("a", web("w", 1, PodRuleSpec("spread", "zone", (WEB,), **minds), node_affinity=away)), nodes=nodes
        )
        assert problem.pod_rules[0].domains == domains
    tolerant = web(
        "w", 1, PodRuleSpec("spread", "zone", (WEB,), honors_taints=True), tolerations=(Toleration("busy", "Exists"),)
    )
    assert lowered(gang("a", tolerant), nodes=nodes).pod_rules[0].domains == (0, 1, None, 2)


def test_a_spread_over_two_labels_counts_nodes_that_have_both() -> None:
    nodes = (node("n0", labels={"zone": "a", "rack": "1"}), node("n1", labels={"zone": "b"}))
    problem = lowered(
        gang("a", web("w", 1, PodRuleSpec("spread", "zone", (WEB,)), PodRuleSpec("spread", "rack", (WEB,)))),
        nodes=nodes,
    )
    assert [relation.domains for relation in problem.pod_rules] == [(0, None), (0, None)]


def test_a_minimum_of_domains_also_limits_each_node_since_a_pinned_pod_sees_one_domain() -> None:
    problem = lowered(gang("a", web("w", 2, PodRuleSpec("spread", "zone", (WEB,), max_skew=2, min_domains=2))))
    zone, host = problem.pod_rules
    assert (zone.domains, zone.max_skew, zone.min_domains) == ((0, 0, 1), 2, 2)
    assert (host.domains, host.max_skew, host.min_domains > 1000) == ((0, 1, 2), 2, True)


def scheduler(**arguments: bool) -> SchedulerSpec:
    made = document("SchedulerConfiguration", "s")
    return SchedulerSpec(made, "s", "volcano-system", ("allocate",), ((PluginSpec("predicates", arguments, {}),),), {})


def test_rules_that_the_scheduler_does_not_enforce_are_no_pod_rules() -> None:
    rules = (PodRuleSpec("anti-affinity", "zone", (WEB,)), PodRuleSpec("spread", "zone", (WEB,)))

    def kinds(made: SchedulerSpec | None) -> list[str]:
        return [relation.rule_kind for relation in lowered(gang("a", web("w", 1, *rules)), scheduler=made).pod_rules]

    assert kinds(None) == kinds(scheduler()) == ["anti-affinity", "spread"]
    assert kinds(scheduler(**{"predicate.PodAffinityEnable": False})) == ["spread"]
    assert kinds(scheduler(**{"predicate.PodTopologySpreadEnable": False})) == ["anti-affinity"]
    assert kinds(replace(scheduler(), tiers=())) == []


def test_pods_with_one_host_port_keep_apart_on_a_node() -> None:
    http, only_a, only_b = (("80/TCP", *more) for more in ((), ("80/TCP@10.0.0.1",), ("80/TCP@10.0.0.2",)))
    holder = {"containers": [{"name": "c", "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}]}

    def rules(*ports: tuple[str, ...], pods: Any = (), **more: Any) -> list[tuple[tuple[int, ...], ...]]:
        gangs = (gang(f"g{i}", role("w", 2, host_ports=own), **more) for i, own in enumerate(ports))
        problem = lowered(*gangs, pods=list(pods), scheduler=scheduler(**{"predicate.PodAffinityEnable": False}))
        assert {found.rule_kind for found in problem.pod_rules} <= {"anti-affinity"}
        return [(found.selected_present, found.owners_present) for found in problem.pod_rules]

    none = (0, 0, 0)
    assert rules(http, http) == [(none, ())]
    assert rules(only_a, only_b) == [(none, ()), (none, ())]
    there = cluster_objects.pod("proxy", "n1", spec=holder)
    assert rules(http, pods=[there]) == [((0, 1, 0), ())], "who takes all addresses meets everybody"
    assert rules(only_b, pods=[there]) == [(none, ())]
    assert rules(("80/TCP", "81/UDP"), pods=[there]) == [((0, 1, 0), ()), (none, ())]
    everywhere = cluster_objects.pod("proxy", "n2", spec={"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]})
    assert rules(only_a, pods=[everywhere]) == [(none, ()), ((0, 0, 1), (0, 0, 1))]
    off = scheduler(**{"predicate.NodePortsEnable": False})
    assert lowered(gang("a", role("w", 2, host_ports=http)), scheduler=off).pod_rules == ()


def test_ports_of_pods_of_which_a_node_holds_one_are_no_pod_rule() -> None:
    nodes = (node("n0", gpu=8), node("n1", gpu=8))
    for gpus, pods, expected in ((8, 2, 0), (5, 2, 0), (4, 2, 1), (4, 1, 0)):
        asking = gang("a", role("w", pods, gpu=gpus, host_ports=("80/TCP",)))
        assert len(lowered(asking, nodes=nodes).pod_rules) == expected, (gpus, pods)


def test_the_text_of_a_pod_rule_names_rule_label_and_pods() -> None:
    rules = (PodRuleSpec("anti-affinity", HOST, (WEB,)), PodRuleSpec("spread", "zone", (WEB,), max_skew=2))
    _, origins = lower(specs(nodes=zoned("a"), gangs=(gang("a", web("w", 1, *rules)),)))
    assert origins.rules.texts == (
        f"required pod anti-affinity by {HOST} to app=web",
        "topology spread by zone, maxSkew 2",
    )
    _, origins = lower(specs(nodes=zoned("a"), gangs=(gang("a", web("w", 2, host_ports=("80/TCP",))),)))
    assert origins.rules.texts == ("one pod on a node with host port 80/TCP",)
    assert origins.rules.fields == ("containers",)


def test_without_rules_in_pods_there_are_no_pod_rules() -> None:
    assert lowered(gang("a", web("w", 2)), pods=[pod("x", "n0", app="web")]).pod_rules == ()
