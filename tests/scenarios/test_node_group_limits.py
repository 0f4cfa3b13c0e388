"""Limits of queues on node groups (Volcano 1.16): among jobs of one plan, next to what runs, and what would help."""

from __future__ import annotations

from typing import Any

from compiler.outcome import Outcome
from tests.builders.volcano_1_16 import actions, cluster_1_16, job, patched_1_16, planned_1_16, running_pod, tree_1_16


def pool(count: int, group: str) -> str:
    labels = f"{{volcano.sh/nodegroup-name: {group}}}"
    return f"{{count: {count}, labels: {labels}, capacity: {{cpu: 64, nvidia.com/gpu: 8}}}}"


CLUSTER = cluster_1_16({"fast": pool(2, "fast"), "slow": pool(1, "slow")}, "nodegroup")


def queue(name: str, limits: str = "", groups: str = "[fast]") -> str:
    annotations = f"\n  annotations:\n    volcano.sh/nodegroup-resource-limits: '{limits}'" if limits else ""
    return f"""\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: {name}{annotations}
spec: {{affinity: {{nodeGroupAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {groups}}}}}}}
"""


def held(name: str, node: str, gpus: int, queue: str = "a") -> dict[str, Any]:
    """A pod of the queue that belongs to no job of the repository."""
    return running_pod(name, node, gpus, {"scheduling.volcano.sh/queue-name": queue})


def planned(
    *texts: str, queues: str, state: list[dict[str, Any]] | None = None, cluster: str = CLUSTER, code: str = ""
) -> Outcome:
    return planned_1_16(*texts, cluster=cluster, queues=queues, state=state, error=code)


def gpus(outcome: Outcome, group: str) -> int:
    """What new pods take in the group."""
    assert outcome.problem is not None
    assert outcome.plan is not None
    problem, gpu = outcome.problem, outcome.problem.resources.index("nvidia.com/gpu")
    return sum(
        p.pods * problem.gangs[decision.gang].roles[p.role].request[gpu]
        for decision in outcome.plan.decisions
        for p in decision.placements
        if problem.nodes[p.node].name.startswith(group)
    )


LIMITED = queue("a", '{"fast": {"nvidia.com/gpu": "6"}}', "[fast, slow]")


def test_a_queue_takes_no_more_than_its_limit_in_a_group() -> None:
    jobs = [job(f"j{number}", gpus=4) for number in range(5)]
    outcome = planned(*jobs, queues=LIMITED)
    assert (gpus(outcome, "fast"), gpus(outcome, "slow")) == (4, 8)
    assert sorted(actions(outcome).values()) == ["start"] * 3 + ["wait"] * 2
    assert gpus(planned(*jobs, queues=queue("a", "", "[fast, slow]")), "fast") > 6
    assert not {"GP430", "GP443"} & {each.code for each in outcome.diagnostics}


def test_other_queues_do_not_count_and_have_no_limit() -> None:
    outcome = planned(
        job("j", gpus=6),
        job("k", gpus=6, queue="b"),
        queues=queue("a", '{"fast": {"nvidia.com/gpu": "6"}}') + "---\n" + queue("b"),
    )
    assert set(actions(outcome).values()) == {"start"}


def test_pods_of_the_queue_that_run_count_whoever_made_them() -> None:
    only_fast = queue("a", '{"fast": {"nvidia.com/gpu": "6"}}')
    state = [held("x", "fast-0", 3), held("y", "fast-1", 8, queue="b")]
    outcome = planned(job("j", gpus=4), queues=only_fast + "---\n" + queue("b"), state=state)
    (decision,) = outcome.decisions
    (reason,) = decision.reasons
    assert (decision.action, reason.code, reason.never) == ("wait", "GW128", False)
    assert reason.message == "queue a may hold 6 nvidia.com/gpu in node group fast and has 3 left; the job asks for 4"
    assert [source.short_text for source in reason.sources] == [
        "cluster-specs/test/queues.yaml:6 limits of node groups"
    ]
    repair = next(repair for repair in decision.repairs if repair.code == "GR127")
    assert repair.message == "limit 7 nvidia.com/gpu for queue a in node group fast instead of 6"
    tree = tree_1_16(job("j", gpus=4), cluster=CLUSTER, queues=only_fast + "---\n" + queue("b"))
    assert actions(patched_1_16(outcome, tree, "GR127", state)) == {"j": "start"}
    assert actions(planned(job("j", gpus=3), queues=only_fast + "---\n" + queue("b"), state=state)) == {"j": "start"}


def test_a_job_larger_than_the_limit_never_starts_and_with_the_limit_told_it_does() -> None:
    outcome = planned(job("j", pods=2, gpus=4), queues=queue("a", '{"fast": {"nvidia.com/gpu": "6"}}'))
    (decision,) = outcome.decisions
    (reason,) = decision.reasons
    assert (decision.action, reason.code, reason.never) == ("wait", "GW128", True)
    assert "GR127" in {repair.code for repair in decision.repairs}
    higher = queue("a", '{"fast": {"nvidia.com/gpu": "8"}}')
    assert actions(planned(job("j", pods=2, gpus=4), queues=higher)) == {"j": "start"}


def test_growth_stays_within_the_limit() -> None:
    outcome = planned(job("j", 1, 8, minimum=1), queues=queue("a", '{"fast": {"nvidia.com/gpu": 3, "cpu": 64}}'))
    assert (actions(outcome), gpus(outcome, "fast")) == ({"j": "start"}, 3)


def test_without_the_plugin_or_in_an_earlier_release_nothing_is_limited() -> None:
    for cluster in (CLUSTER.replace(", {name: nodegroup}", ""), CLUSTER.replace('"1.16"', '"1.15"')):
        outcome = planned(
            job("j", gpus=8),
            queues=queue("a", '{"fast": {"nvidia.com/gpu": "6"}}'),
            cluster=cluster,
            code="GP436" if "1.15" in cluster else "",
        )
        assert outcome.problem is not None
        assert outcome.problem.pod_rules == ()
