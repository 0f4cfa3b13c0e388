"""Who may be evicted, as documents, annotations and a state say it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState, StateError, load_state
from compiler.cluster_state.observed import observe_state
from compiler.fields.times import go_duration_seconds
from compiler.lower.lowering import lower
from compiler.lower.queues import lower_policy
from compiler.lower.victims import cooldown_ends
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import PluginSpec, Specs
from compiler.specs.gang_spec import GangSpec, RoleSpec
from solver.problem import EvictionVotes, Gang, Policy, Problem
from solver.semantics.eviction_rights import allows_eviction
from tests.builders.specs import document

CASE = Path(__file__).parents[3] / "golden" / "preempt"


@pytest.fixture(scope="module")
def specs() -> Specs:
    return compile_repository(Repository.from_directory(CASE / "repo")).specs


@pytest.fixture(scope="module")
def state() -> ClusterState:
    return load_state((CASE / "state.yaml").read_bytes())


def gang(problem: Problem, name: str) -> Gang:
    return next(gang for gang in problem.gangs if gang.name == f"vision/{name}")


def with_pods(state: ClusterState, job: str, part: str = "metadata", **fields: Any) -> ClusterState:
    """The same with these fields in a part of a job's pods."""
    pods = tuple(
        {**pod, part: {**pod[part], **fields}} if pod["metadata"]["name"].startswith(job) else pod for pod in state.pods
    )
    return replace(state, pods=pods)


def first_pod(state: ClusterState, job: str) -> str:
    return str(min(pod["metadata"]["name"] for pod in state.pods if pod["metadata"]["name"].startswith(job)))


def scheduled(specs: Specs, **changes: Any) -> Specs:
    """The same with this in the scheduler's configuration."""
    assert specs.scheduler is not None
    return replace(specs, scheduler=replace(specs.scheduler, **changes))


def test_run_time_is_measured_to_the_newest_event_in_the_state(specs: Specs, state: ClusterState) -> None:
    problem, _ = lower(specs, state)
    assert (gang(problem, "nas-trial-1").eviction.loss, gang(problem, "sweep").eviction.loss) == (12 * 60, 60 * 60)


def test_loss_counts_from_the_last_checkpoint_where_a_pod_says_when_that_was(specs: Specs, state: ClusterState) -> None:
    """The sweep's pods run for an hour."""
    assert state.clock is None
    now = observe_state(specs, state).now
    assert now is not None

    def loss(job: str, seconds: int) -> tuple[int, bool]:
        time = datetime.fromtimestamp(now - seconds, UTC).isoformat().replace("+00:00", "Z")
        problem, _ = lower(specs, with_pods(state, job, annotations={"volcano.sh/last-checkpoint-time": time}))
        return gang(problem, "sweep").eviction.loss, gang(problem, "sweep").eviction.reports_checkpoint

    first = first_pod(state, "sweep")
    pods = sum(p.pods for p in gang(lower(specs, state)[0], "sweep").running)
    assert loss("nobody", 600) == (3600, False)
    assert loss("sweep", 600) == (600, True)
    assert loss("sweep", 7200) == (3600, True)
    assert loss("sweep", -60) == (0, True)
    assert loss(first, 600) == (-(-(600 + 3600 * (pods - 1)) // pods), True)
    problem, _ = lower(specs, with_pods(state, "sweep", annotations={"volcano.sh/last-checkpoint-time": "yesterday"}))
    assert (gang(problem, "sweep").eviction.loss, gang(problem, "sweep").eviction.reports_checkpoint) == (3600, False)


def test_no_pod_goes_that_holds_less_than_its_role_asks_for(specs: Specs, state: ClusterState) -> None:
    """A plan would give away what it does not have. Of one that holds more only what the role asks for comes back."""
    before = gang(lower(specs, state)[0], "sweep")
    assert not before.eviction.protected

    def with_gpus(number: int) -> Gang:
        containers = [{"resources": {"requests": {"nvidia.com/gpu": number}}}]
        holding = with_pods(state, first_pod(state, "sweep"), "spec", containers=containers)
        return gang(lower(specs, holding)[0], "sweep")

    asked = max(before.roles[before.running[0].role].request)
    assert sum(place.pods for place in with_gpus(asked - 1).eviction.protected) == 1
    assert with_gpus(asked + 1).eviction.evictable
    assert not with_gpus(asked + 1).eviction.protected


def test_an_owner_protects_by_annotation_and_no_annotation_protects_no_pod(specs: Specs, state: ClusterState) -> None:
    problem, _ = lower(specs, state)
    assert not gang(problem, "protected").eviction.evictable
    assert gang(problem, "sweep").eviction.evictable


@pytest.mark.parametrize(("value", "open_to"), [("true", True), ("1", True), ("false", False), ("no", False)])
def test_a_running_pod_may_say_it_too(specs: Specs, state: ClusterState, value: str, open_to: bool) -> None:
    problem, _ = lower(specs, with_pods(state, "sweep", annotations={"volcano.sh/preemptable": value}))
    assert gang(problem, "sweep").eviction.evictable is open_to


def with_job_texts(specs: Specs, job: str, tasks: dict[str, dict[str, str]], **texts: dict[str, str]) -> Specs:
    """The same with the action preempt, and these annotations and labels of the job. tasks: those of the template of
    its first role."""

    def changed(gang: GangSpec) -> GangSpec:
        if gang.document.name != job:
            return gang
        data = {**gang.document.data, "metadata": {**gang.document.data["metadata"], **texts}}
        return replace(
            gang,
            document=replace(gang.document, data=data),
            roles=(replace(gang.roles[0], **tasks), *gang.roles[1:]),  # type: ignore[arg-type]
        )

    return scheduled(replace(specs, gangs=tuple(map(changed, specs.gangs))), actions=("preempt",))


YES, NO, ODD = ({"volcano.sh/preemptable": word} for word in ("true", "false", "maybe"))


@pytest.mark.parametrize(
    ("job", "template", "open_to"),
    [
        ({"annotations": YES}, {"annotations": NO}, True),
        ({"annotations": NO}, {"annotations": YES}, False),
        ({"labels": YES}, {"labels": NO}, True),
        ({"labels": NO}, {"annotations": YES}, True),
        ({"annotations": YES}, {"labels": NO}, True),
        ({}, {"labels": NO}, False),
        ({}, {"annotations": ODD}, False),
        ({}, {}, True),
    ],
)
def test_the_job_speaks_before_the_template_and_the_annotation_before_the_label(
    specs: Specs,
    state: ClusterState,
    job: dict[str, dict[str, str]],
    template: dict[str, dict[str, str]],
    open_to: bool,
) -> None:
    problem, _ = lower(with_job_texts(specs, "sweep", template, **job), state)
    assert gang(problem, "sweep").eviction.evictable is open_to


def test_what_a_pod_says_itself_counts_before_its_job_and_for_itself_alone(specs: Specs, state: ClusterState) -> None:
    says_no = with_job_texts(specs, "sweep", {}, annotations=NO)
    problem, _ = lower(says_no, with_pods(state, "sweep", labels=YES))
    assert (gang(problem, "sweep").eviction.evictable, gang(problem, "sweep").eviction.protected) == (True, ())
    problem, _ = lower(specs, with_pods(state, first_pod(state, "sweep"), annotations=NO))
    assert [p.pods for p in gang(problem, "sweep").eviction.protected] == [1]
    assert gang(problem, "sweep").eviction.evictable


def of_class(state: ClusterState, job: str, priority_class: str) -> ClusterState:
    """The same with this priority class of a job's pods."""
    return with_pods(state, job, "spec", priorityClassName=priority_class)


@pytest.mark.parametrize("name", ["system-cluster-critical", "system-node-critical"])
def test_pods_of_a_system_priority_class_are_no_victims(specs: Specs, state: ClusterState, name: str) -> None:
    """Volcano's plugin conformance asks each pod, also where its job names no class."""
    assert not gang(lower(specs, of_class(state, "sweep", name))[0], "sweep").eviction.evictable
    one = first_pod(state, "sweep")
    assert [p.pods for p in gang(lower(specs, of_class(state, one, name))[0], "sweep").eviction.protected] == [1]


def test_pods_that_name_no_class_have_the_one_of_their_template(specs: Specs, state: ClusterState) -> None:
    critical = with_roles(
        specs, "sweep", pod=replace(role_of(specs, "sweep").pod, priority_class="system-node-critical")
    )
    assert not gang(lower(critical, state)[0], "sweep").eviction.evictable
    assert gang(lower(critical, of_class(state, "sweep", "trials"))[0], "sweep").eviction.evictable


def role_of(specs: Specs, job: str) -> RoleSpec:
    return next(gang.roles[0] for gang in specs.gangs if gang.document.name == job)


def with_roles(specs: Specs, job: str, **changes: Any) -> Specs:
    """The same with this in the only role of a job."""
    gangs = (
        replace(gang, roles=(replace(gang.roles[0], **changes),)) if gang.document.name == job else gang
        for gang in specs.gangs
    )
    return replace(specs, gangs=tuple(gangs))


def test_bare_pods_speak_for_themselves_alone(specs: Specs, state: ClusterState) -> None:
    """The first of a role's pods is no template of the others."""
    bare = with_roles(specs, "sweep", pod_documents=(document("Pod", "first"),), annotations=NO)
    assert gang(lower(bare, state)[0], "sweep").eviction.protected == ()
    problem, _ = lower(bare, with_pods(state, first_pod(state, "sweep"), annotations=NO))
    assert [p.pods for p in gang(problem, "sweep").eviction.protected] == [1]


def test_the_gang_actions_ask_the_job_as_well(specs: Specs, state: ClusterState) -> None:
    specs = with_job_texts(specs, "sweep", {"annotations": YES}, labels=NO)
    for action, open_to in (("preempt", True), ("gangpreempt", False)):
        problem, _ = lower(scheduled(specs, actions=(action,)), state)
        assert gang(problem, "sweep").eviction.evictable is open_to


def test_the_class_that_never_preempts_is_known(specs: Specs, state: ClusterState) -> None:
    problem, _ = lower(specs, state)
    assert (gang(problem, "nightly").eviction.may_evict, gang(problem, "release").eviction.may_evict) == (False, True)


@pytest.mark.parametrize(
    ("actions", "switches"),
    [
        (("allocate",), (False, False)),
        (("allocate", "preempt"), (True, False)),
        (("allocate", "gangreclaim"), (False, True)),
        (("allocate", "reclaim", "gangpreempt"), (True, True)),
    ],
)
def test_the_schedulers_actions_switch_evictions_on(
    specs: Specs, state: ClusterState, actions: tuple[str, ...], switches: tuple[bool, bool]
) -> None:
    problem, _ = lower(scheduled(specs, actions=actions), state)
    assert (problem.preempt_enabled, problem.reclaim_enabled) == switches
    assert gang(problem, "sweep").eviction.evictable
    assert allows_eviction(problem) is any(switches)


def test_without_a_scheduler_configuration_no_pod_is_evicted(specs: Specs, state: ClusterState) -> None:
    problem, _ = lower(replace(specs, scheduler=None), state)
    assert (problem.preempt_enabled, problem.reclaim_enabled) == (False, False)


def plugin(name: str, **flags: bool) -> PluginSpec:
    return PluginSpec(name, {}, flags)


SURPLUS, WHOLE, SHARES = (
    EvictionVotes(whole_gangs=False),
    EvictionVotes(),
    EvictionVotes(whole_gangs=False, compare_shares=True),
)


@pytest.mark.parametrize(
    ("action", "tiers", "vote"),
    [
        ("preempt", [[plugin("priority"), plugin("gang")]], SURPLUS),
        ("preempt", [[plugin("priority"), plugin("gang", enablePreemptable=False)]], WHOLE),
        ("preempt", [[plugin("priority"), plugin("gang", enableReclaimable=False)]], SURPLUS),
        ("preempt", [[plugin("priority")], [plugin("gang"), plugin("drf")]], WHOLE),
        (
            "preempt",
            [[plugin("nodeorder"), plugin("priority", enablePreemptable=False)], [plugin("gang"), plugin("drf")]],
            SHARES,
        ),
        ("preempt", [[plugin("priority"), plugin("gang"), plugin("drf", enablePreemptable=False)]], SURPLUS),
        ("preempt", [[plugin("predicates")], [plugin("gang", enablePreemptable=False)]], None),
        ("reclaim", [[plugin("gang", enablePreemptable=False), plugin("conformance")]], SURPLUS),
        ("reclaim", [[plugin("gang", enableReclaimable=False), plugin("conformance"), plugin("drf")]], WHOLE),
        ("reclaim", [[plugin("priority")], [plugin("capacity")]], WHOLE),
        ("reclaim", [[plugin("priority"), plugin("drf")]], None),
        ("gangpreempt", [[plugin("gang", enablePreemptable=True), plugin("drf")]], WHOLE),
        ("gangreclaim", [[plugin("nodeorder")]], None),
    ],
)
def test_the_first_tier_that_votes_says_what_may_go(
    specs: Specs, state: ClusterState, action: str, tiers: list[list[PluginSpec]], vote: EvictionVotes | None
) -> None:
    problem, _ = lower(scheduled(specs, actions=("allocate", action), tiers=tuple(map(tuple, tiers))), state)
    found = (
        problem.preempt_votes if problem.preempt_enabled else None,
        problem.reclaim_votes if problem.reclaim_enabled else None,
    )
    assert found == ((vote, None) if "preempt" in action else (None, vote))


@pytest.mark.parametrize(
    ("actions", "vote"), [(("gangpreempt",), SURPLUS), (("preempt", "gangpreempt"), SURPLUS), (("preempt",), SHARES)]
)
def test_bundles_of_whole_gangs_may_be_forbidden(
    specs: Specs, state: ClusterState, actions: tuple[str, ...], vote: EvictionVotes
) -> None:
    """Of two actions the one that lets more go counts."""
    configurations = {"gangpreempt": {"allowWholeBundle": False}}
    tiers = ((plugin("gang"), plugin("drf")),)
    forbidden = scheduled(specs, actions=actions, tiers=tiers, configurations=configurations)
    assert lower(forbidden, state)[0].preempt_votes == vote


@pytest.mark.parametrize(
    ("said", "levels"), [({}, 0), ({"ancestorReclaimLevel": 2}, 2), ({"ancestorReclaimLevel": -1}, 0)]
)
def test_how_far_up_the_tree_of_queues_is_asked(specs: Specs, said: dict[str, Any], levels: int) -> None:
    def chosen(**flags: bool) -> Policy:
        scheduler = scheduled(specs, tiers=((PluginSpec("capacity", said, flags),),)).scheduler
        return lower_policy(scheduler, "queues-first")

    assert chosen(enableHierarchy=True).ancestor_reclaim_levels == levels
    assert chosen().ancestor_reclaim_levels == 0


def budget(name: str, selector: Any, allowed: int = 1, namespace: str = "vision") -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector} if selector is not None else {},
        "status": {"disruptionsAllowed": allowed},
    }


def with_budgets(state: ClusterState, *budgets: dict[str, Any]) -> ClusterState:
    return replace(
        with_pods(state, "sweep", labels={"volcano.sh/job-name": "sweep", "app": "sweep"}), disruption_budgets=budgets
    )


@pytest.mark.parametrize(
    ("selector", "namespace", "covered"),
    [
        ({"matchLabels": {"app": "sweep"}}, "vision", True),
        ({"matchLabels": {"app": "other"}}, "vision", False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "vision", True),
        ({"matchLabels": {"app": "sweep"}}, "elsewhere", False),
        ({}, "vision", True),
        (None, "vision", False),
    ],
)
def test_a_disruption_budget_covers_the_roles_whose_pods_it_selects(
    specs: Specs, state: ClusterState, selector: Any, namespace: str, covered: bool
) -> None:
    problem, _ = lower(specs, with_budgets(state, budget("keep", selector, 2, namespace)))
    sweep = next(g for g, gang in enumerate(problem.gangs) if gang.name == "vision/sweep")
    assert [(b.name, b.allowed) for b in problem.disruption_budgets] == (
        [(f"{namespace}/keep", 2)] if any(b.roles for b in problem.disruption_budgets) else []
    )
    assert any((sweep, 0) in b.roles for b in problem.disruption_budgets) is covered


def test_pods_under_two_budgets_are_never_evicted_as_in_the_eviction_api(specs: Specs, state: ClusterState) -> None:
    app = {"matchLabels": {"app": "sweep"}}
    problem, _ = lower(specs, with_budgets(state, budget("one", app), budget("two", app, 5)))
    assert [(b.name, b.allowed) for b in problem.disruption_budgets] == [
        ("vision/one", 1),
        ("vision/two", 5),
        ("several budgets at once", 0),
    ]


@pytest.mark.parametrize(
    ("actions", "plugins", "addable"),
    [
        (None, (), ("preempt", "reclaim")),  # Volcano's default configuration has plugins that vote
        (("allocate",), ("gang", "capacity"), ("preempt", "reclaim")),
        (("allocate", "preempt"), ("gang", "capacity"), ("reclaim",)),
        (("allocate", "gangreclaim"), ("gang",), ("preempt",)),
        (("allocate",), ("drf",), ("preempt",)),
        (("allocate",), ("nodeorder",), ()),
    ],
)
def test_actions_that_would_evict_are_named(
    specs: Specs, state: ClusterState, actions: tuple[str, ...] | None, plugins: tuple[str, ...], addable: tuple[str]
) -> None:
    configured = scheduled(specs, actions=actions, tiers=(tuple(map(plugin, plugins)),))
    problem, _ = lower(configured if actions is not None else replace(specs, scheduler=None), state)
    assert problem.addable_evictions == addable


def test_a_budget_that_cannot_be_read_is_named(specs: Specs, state: ClusterState) -> None:
    broken = {"matchExpressions": [{"key": "app", "operator": "Near"}]}
    with pytest.raises(StateError, match=r"PodDisruptionBudget vision/keep of the state, spec\.selector"):
        lower(specs, with_budgets(state, budget("keep", broken)))


CDP = plugin("cdp")


@pytest.mark.parametrize(
    ("plugins", "cooldown", "open_to"),
    [
        ([CDP], "2h", False),
        ([CDP], "5m", True),
        ([plugin("cdp", enablePreemptable=False)], "2h", True),
        ([], "2h", True),
    ],
)
def test_a_pod_in_its_cooldown_time_is_guarded_by_the_plugin_cdp(
    specs: Specs, state: ClusterState, plugins: list[PluginSpec], cooldown: str, open_to: bool
) -> None:
    fresh = with_pods(state, "sweep", annotations={"volcano.sh/cooldown-time": cooldown})
    guarded = scheduled(specs, actions=("preempt",), tiers=((plugin("priority"), *plugins),))
    assert gang(lower(guarded, fresh)[0], "sweep").eviction.evictable is open_to


def test_a_cooldown_guards_its_own_pod_alone(specs: Specs, state: ClusterState) -> None:
    """The label counts before the annotation (podCooldownTime), what a pod says before its template."""
    specs = scheduled(specs, tiers=((plugin("priority"), CDP),))
    assert specs.scheduler is not None
    long, short = ({"volcano.sh/cooldown-time": text} for text in ("2h", "5m"))

    def protected(state: ClusterState, specs: Specs = specs) -> tuple[bool, int]:
        found = gang(lower(specs, state)[0], "sweep")
        return found.eviction.evictable, sum(p.pods for p in found.eviction.protected)

    one = first_pod(state, "sweep")
    assert protected(with_pods(state, one, annotations=long)) == (True, 1)
    assert protected(with_pods(state, one, annotations=long, labels=short)) == (True, 0)
    template = with_roles(specs, "sweep", annotations=long)
    assert protected(state, template) == (False, 0)
    pods = sum(p.pods for p in gang(lower(specs, state)[0], "sweep").running)
    mixed = with_pods(state, one, annotations=short)
    assert protected(mixed, template) == (True, pods - 1)
    j = next(j for j, gang in enumerate(specs.gangs) if gang.document.name == "sweep")
    observed = observe_state(template, mixed)
    start = observed.started_at(j)
    assert start is not None
    assert cooldown_ends(j, template.gangs[j], observed, specs.scheduler) == {start + 300, start + 7200}


@pytest.mark.parametrize(
    ("text", "value"), [("600s", 600), ("1h30m", 5400), ("1.5m", 90), ("", 0), ("soon", 0), ("10", 0)]
)
def test_go_durations(text: str, value: int) -> None:
    assert go_duration_seconds(text) == value
