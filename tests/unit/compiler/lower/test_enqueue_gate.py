"""Which jobs fairshare's gate keeps out: shares by their definition, and Volcano's own two cases."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.cluster_state.cluster_state import ClusterState
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.volcano.fairshare import FairShare, ReachedShare, shares_reached
from tests.builders import declared, repositories
from tests.builders.cluster_objects import Object, pod
from tests.builders.volcano_1_16 import job

PLUGIN = FairShare((), {}, "cpu", 240, ("volcano-system", "fairshare-usage-state"), gates=True)
KIND = "apiVersion: gangplan.dev/v1alpha1\nkind: "


def reached(running: dict[str, int], asked: dict[str, int], total: int) -> dict[str, ReachedShare]:
    held, wanted = ({("q", name): {"cpu": amount} for name, amount in by.items()} for by in (running, asked))
    return {name: share for (_, name), share in shares_reached(PLUGIN, wanted, held, {"q": total}).items()}


@pytest.mark.parametrize(
    ("running", "asked", "total", "expected"),
    [
        ({"a": 4}, {"a": 1, "b": 1}, 4, {"a": ReachedShare("cpu", 4, Fraction(3))}),  # Volcano's TestEnqueueGate
        ({"a": 4}, {"a": 1}, 8, {}),  # nobody else asks, and there is room for all
        ({"a": 4}, {"a": 1}, 4, {"a": ReachedShare("cpu", 4, Fraction(4))}),
        ({"a": 3}, {"a": 4, "b": 9}, 8, {}),  # below its share of 4, whatever the job asks for
        ({"a": 4}, {"a": 4, "b": 9}, 8, {"a": ReachedShare("cpu", 4, Fraction(4))}),
        ({"a": 5}, {"b": 9}, 8, {}),  # it asks for nothing more
        ({"a": 2, "b": 1}, {"a": 1, "c": 9, "b": 0}, 9, {}),  # b leaves a and c 4 each
        ({"a": 4, "b": 1}, {"a": 1, "c": 9, "b": 0}, 9, {"a": ReachedShare("cpu", 4, Fraction(4))}),
        ({"a": 4}, {"a": 4}, 0, {}),  # nothing to share: Volcano abstains
    ],
)
def test_shares_by_hand(
    running: dict[str, int], asked: dict[str, int], total: int, expected: dict[str, ReachedShare]
) -> None:
    assert reached(running, asked, total) == expected


NAMES = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), min_size=1)


@given(NAMES, NAMES, st.integers(1, 30))
def test_shares_are_the_max_min_fair_ones(running: dict[str, int], asked: dict[str, int], total: int) -> None:
    """Written again: one small part at a time to those who have least of what they want."""
    wants = {name: running.get(name, 0) + asked.get(name, 0) for name in {**running, **asked}}
    parts, left = dict.fromkeys(wants, Fraction()), Fraction(total)
    while left and (hungry := [name for name in wants if parts[name] < wants[name]]):
        least = min(parts[name] for name in hungry)
        lowest = [name for name in hungry if parts[name] == least]
        step = min(min(Fraction(wants[name]) for name in lowest) - least, left / len(lowest))
        parts |= dict.fromkeys(lowest, least + step)
        left -= step * len(lowest)
    kept = {name for name in wants if asked.get(name, 0) and running.get(name, 0) >= parts[name]}
    found = reached(running, asked, total)
    assert found.keys() == kept
    assert all(found[name].share == parts[name] for name in kept)


def cluster(*, plugins: str, gate: str = "true", actions: str = "enqueue, allocate", version: str = "1.16") -> str:
    arguments = f'{{fairshare.enableEnqueueGate: "{gate}"}}'
    return "---\n".join(
        (
            f'{KIND}Cluster\nmetadata: {{name: c}}\nspec: {{volcano: "{version}"}}\n',
            f"{KIND}NodePool\nmetadata: {{name: n}}\nspec: {{count: 2, capacity: {{cpu: 64, nvidia.com/gpu: 8}}}}\n",
            f"{KIND}SchedulerConfiguration\n"
            "metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}\n"
            f"spec:\n  actions: [{actions}]\n  tiers: "
            + plugins.replace("fairshare", f"{{name: fairshare, arguments: {arguments}}}")
            + "\n",
        )
    )


FIRST = "[{plugins: [{name: priority}, {name: gang}, fairshare]}, {plugins: [{name: predicates}, {name: capacity}]}]"
LAST = "[{plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: capacity}]}, {plugins: [fairshare]}]"


def running_pods(*gpus: int, namespace: str = "a", node: str = "n-0") -> list[Object]:
    """Of a PodGroup that no file declares."""
    names: Object = {"namespace": namespace, "annotations": {"scheduling.k8s.io/group-name": "theirs"}}
    names["spec"] = {"schedulerName": "volcano"}
    pods = [pod(f"p-{n}", node, requests={"nvidia.com/gpu": str(amount)}, **names) for n, amount in enumerate(gpus)]
    group = declared.declared("PodGroup", "theirs", {"queue": "q", "minMember": 1}, namespace=namespace)
    return [*pods, {**group, "status": {"phase": "Running"}}]


def planned(text: str, *more: Object, gpus: int, capability: int = 16) -> Outcome:
    written = [job(f"{name}1", gpus, queue="q", namespace=name) for name in "ab"]
    tree = repositories.repository(text, declared.queue("q", capability={"nvidia.com/gpu": capability}), *written)
    state = ClusterState.from_objects([*running_pods(4, 4), *more], clock=1795694400)
    outcome = compile_repository(tree, state=state)
    assert not outcome.error_count, outcome.diagnostics
    assert not any("gate" in each.message for each in outcome.diagnostics if each.code == "GP430")
    return outcome


def starts(outcome: Outcome) -> set[str]:
    return {each.name for each in outcome.decisions if each.action == "start"}


def kept_out(outcome: Outcome) -> set[str]:
    return {each.name for each in outcome.decisions if any("gate" in reason.message for reason in each.reasons)}


def test_a_namespace_at_its_share_waits_and_the_plan_says_why() -> None:
    """a runs 8 of 16 GPUs."""
    assert starts(planned(cluster(plugins=FIRST), gpus=4)) == {"a/a1", "b/b1"}, "b asks for 4, so a's share is 12"
    outcome = planned(cluster(plugins=FIRST), gpus=8)
    assert starts(outcome) == {"b/b1"}
    (waiting,) = (each for each in outcome.decisions if each.action == "wait")
    why = "the gate of fairshare keeps it out: namespace a runs 8 nvidia.com/gpu in queue q, and its share is 8"
    assert [(reason.code, reason.message) for reason in waiting.reasons] == [("GW111", why)]


@pytest.mark.parametrize(("capability", "is_kept"), [(0, True), (16, True), (20, False)])
def test_the_capability_of_the_queue_is_shared_and_else_what_the_cluster_has(capability: int, is_kept: bool) -> None:
    """A capability of 0 counts as none, as in Volcano: 16 GPUs are shared."""
    assert bool(kept_out(planned(cluster(plugins=FIRST), gpus=8, capability=capability))) == is_kept


@pytest.mark.parametrize(
    "without",
    [
        {"plugins": LAST},  # capacity admits it in the tier before
        {"plugins": FIRST, "gate": "false"},
        {"plugins": FIRST, "actions": "allocate"},
    ],
)
def test_without_a_gate_that_decides_nobody_is_kept_out(without: dict[str, Any]) -> None:
    assert not kept_out(planned(cluster(**without), gpus=8))


@pytest.mark.parametrize(("phase", "is_kept"), [("Pending", True), ("Inqueue", False), ("Running", False)])
def test_a_job_that_a_session_has_admitted_is_not_asked_again(phase: str, is_kept: bool) -> None:
    group = declared.declared("PodGroup", "a1-uid", {"queue": "q"}, namespace="a")
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "a1", "uid": "uid", "controller": True}
    live = {**group, "metadata": {**group["metadata"], "ownerReferences": [owner]}, "status": {"phase": phase}}
    assert kept_out(planned(cluster(plugins=FIRST), live, gpus=8)) == ({"a/a1"} if is_kept else set())


def test_a_job_that_asks_for_nothing_of_the_resource_passes() -> None:
    written = [job(name, gpus, queue="q", namespace=name[0]) for name, gpus in (("a1", 8), ("a2", 0), ("b1", 8))]
    queue = declared.queue("q", capability={"nvidia.com/gpu": 16})
    files = repositories.repository(cluster(plugins=FIRST), queue, *written)
    outcome = compile_repository(files, state=ClusterState.from_objects(running_pods(4, 4), clock=1795694400))
    assert (starts(outcome), kept_out(outcome)) == ({"b/b1", "a/a2"}, {"a/a1"})
