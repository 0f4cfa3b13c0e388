"""Every fact says which lines of the repository and which things of the cluster it comes from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.explain.catalogue import ENTRIES, REASONS, REPAIRS
from compiler.explain.lost_starts import LostStart
from compiler.explain.outside_jobs import suspension_sources
from compiler.explain.provenance import Provenance
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.views import data, text
from compiler.views.explanation import explanation_text
from solver.facts import (
    AwayNodes,
    Borrowing,
    CapabilityLimit,
    ClosedNodeGroups,
    ClosedQueue,
    DedicatedDomains,
    DomainShortage,
    EligibleNodeShortage,
    Fact,
    Fragmentation,
    GuaranteeReserve,
    Maintenance,
    NobodyEvicted,
    NodeGroupLimit,
    NoEligibleNode,
    OversizedGang,
    OversizedPod,
    OwnRunningPods,
    PodRuleConflict,
    PrecedingGangs,
    ReservedNodes,
    ResourceShortage,
    ShareLimit,
    SlotShortage,
    StrictOrder,
    SubgroupShortage,
    Undecided,
)
from solver.problem import Placement, Problem
from solver.repairs import (
    AllowEviction,
    EndOfGangs,
    EndOfMaintenance,
    EndOfPods,
    FewerDedicatedDomains,
    FewerPods,
    HigherGroupLimit,
    HigherPriority,
    HigherTier,
    MoreCapability,
    MoreDeserved,
    MoreNodeClasses,
    MoreNodes,
    MoreWeight,
    NoStrictOrder,
    OpenNodeGroups,
    OpenQueue,
    OtherQueue,
    Repair,
    Restart,
    ReturnOfNodes,
    ShorterDuration,
    SmallerGuarantee,
    SmallerPods,
    SmallerSubgroups,
    SoftSeparation,
    SoftTopology,
    StartOfGang,
)

CLUSTER = """\
apiVersion: gangplan.dev/v1alpha1
kind: Cluster
metadata: {name: test}
spec:
  timeLimit: 20
---
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata: {name: gpu}
spec:
  count: 4
  capacity:
    cpu: 64
    nvidia.com/gpu: 8
  numa:
    cells: [{nvidia.com/gpu: 4}, {nvidia.com/gpu: 4}]
  topology:
  - {name: sn, size: 2}
  maintenance:
  - {start: "2026-03-01T01:00:00Z", duration: 4h}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: research
  annotations:
    gangplan.dev/order: strict
    gangplan.dev/guaranteed-domains: 1 of tier 1
spec:
  weight: 3
  capability:
    nvidia.com/gpu: 16
  guarantee:
    resource:
      nvidia.com/gpu: 4
  deserved:
    nvidia.com/gpu: 4
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: shut
  annotations:
    gangplan.dev/closed: "true"
spec: {}
"""


def job(name: str, *, body: str = "", metadata: str = "") -> str:
    return f"""\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: {name}
  namespace: team
  annotations:
    gangplan.dev/expected-duration: 2h
spec:
  queue: research
  networkTopology: {{mode: hard, highestTierAllowed: 1}}
  minAvailable: 2
  tasks:
  - name: worker
    replicas: 2
    partitionPolicy: {{totalPartitions: 1, partitionSize: 2}}
    template:
      metadata: {{labels: {{app: {name}}}}}
      spec:
        nodeSelector: {{zone: a}}
        affinity:
          podAntiAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector: {{matchLabels: {{app: {name}}}}}
        tolerations: [{{operator: Exists}}]
        containers:
        - name: main
          image: i
          resources:
            requests: {{cpu: 4}}
            limits:
              nvidia.com/gpu: 8
  plugins: {{}}
"""


FILES = {"cluster-specs/test/all.yaml": CLUSTER, "jobs/one.yaml": job("one"), "jobs/two.yaml": job("two")}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "stray"},
    "spec": {"unschedulable": True},
    "status": {"allocatable": {"cpu": "64", "nvidia.com/gpu": "8"}},
}
GUARD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "guard", "namespace": "ops", "creationTimestamp": "2026-03-01T00:00:00Z"},
    "spec": {
        "nodeName": "gpu-0",
        "containers": [{"name": "c", "image": "a"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "namespaces": ["team"],
                        "labelSelector": {"matchLabels": {"volcano.sh/job-name": "two"}},
                    }
                ]
            }
        },
    },
}


def compiled(**files: str) -> Outcome:
    nodes = [{**NODE, "metadata": {"name": f"gpu-{n}", "labels": {"zone": "a"}}, "spec": {}} for n in range(4)]
    state = ClusterState.from_objects([*nodes, NODE, GUARD])
    return compile_repository(
        Repository({name: content.encode() for name, content in {**FILES, **files}.items()}), state=state
    )


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    made = compiled()
    assert made.ok, made.diagnostics
    return made


def seen(outcome: Outcome, j: int, statement: Fact | Repair, problem: Problem | None = None) -> list[str]:
    """The object and field of each source of a statement about gang j, and the text of the line that it points to."""
    assert outcome.problem is not None
    assert outcome.origins is not None
    provenance = Provenance(problem or outcome.problem, outcome.origins, outcome.specs.cluster.document)
    found = []
    for source in dict.fromkeys(ENTRIES[type(statement)].sources(provenance, j, statement)):
        place = source.position
        line = FILES[place.file].splitlines()[place.line - 1].strip() if place else "in the cluster"
        found.append(f"{source.object} {source.field} | {line}")
    return found


POOL, QUEUE, ONE, TWO = "NodePool gpu", "Queue research", "Job team/one", "Job team/two"
LIMIT = "request of role worker | nvidia.com/gpu: 8"
CAPACITY = f"{POOL} capacity | nvidia.com/gpu: 8"


CASES: dict[str, list[tuple[Fact, list[str]]]] = {
    "GW101": [
        (CapabilityLimit(8, 4, 0, 1, 16), [f"{QUEUE} capability | nvidia.com/gpu: 16", f"{ONE} {LIMIT}"]),
        (
            CapabilityLimit(8, 4, 0, 1, 16, (1,)),
            [f"{QUEUE} capability | nvidia.com/gpu: 16", f"{TWO}  | name: two", f"{ONE} {LIMIT}"],
        ),
        (
            CapabilityLimit(8, 4, 0, 1, 16, queues=(0,), never=True),
            [f"{QUEUE} capability | nvidia.com/gpu: 16", f"{QUEUE} guarantee | nvidia.com/gpu: 4", f"{ONE} {LIMIT}"],
        ),
    ],
    "GW102": [(ResourceShortage(8, 4, 1), [CAPACITY, f"{ONE} {LIMIT}"])],
    "GW103": [(OversizedPod(8, 4, 0, 1), [CAPACITY, f"{ONE} {LIMIT}"])],
    "GW104": [
        (
            DomainShortage(2, 1, tier=1, hypernode=1),
            [
                f"{POOL} domain gpu-sn-1 | - {{name: sn, size: 2}}",
                f"{ONE} topology | networkTopology: {{mode: hard, highestTierAllowed: 1}}",
            ],
        )
    ],
    "GW105": [(PrecedingGangs(2, 1, gangs=(1,)), [f"{TWO}  | name: two"])],
    "GW124": [
        (
            Borrowing(8, 4, 0, 1, 16, 12, (1,)),
            [f"{QUEUE} weight | weight: 3", f"{TWO}  | name: two", f"{ONE} {LIMIT}"],
        )
    ],
    "GW125": [(LostStart((1,)), [f"{TWO}  | name: two"])],
    "GW106": [
        (GuaranteeReserve(8, 4, 1, 1, (0,)), [f"{QUEUE} guarantee | nvidia.com/gpu: 4", f"{ONE} {LIMIT}"]),
        (
            DedicatedDomains(queue=0, tier=1),
            [f"{QUEUE} guaranteed domains | gangplan.dev/guaranteed-domains: 1 of tier 1"],
        ),
    ],
    "GW107": [
        (
            NoEligibleNode(role=0),
            [
                f"{ONE} node selector of role worker | nodeSelector: {{zone: a}}",
                f"{ONE} tolerations of role worker | tolerations: [{{operator: Exists}}]",
                f"{POOL}  | metadata: {{name: gpu}}",
            ],
        )
    ],
    "GW108": [(OversizedGang(8, 4, 1), [CAPACITY, f"{ONE} {LIMIT}"])],
    "GW109": [
        (
            SubgroupShortage(0, 1, 2, 1, 2),
            [f"{ONE} subgroup worker | partitionPolicy: {{totalPartitions: 1, partitionSize: 2}}"],
        )
    ],
    "GW110": [(Undecided(), ["Cluster test time limit | timeLimit: 20"])],
    "GW112": [(ShareLimit(8, 4, 0, 1, 16), [f"{QUEUE} weight | weight: 3", f"{ONE} {LIMIT}"])],
    "GW113": [
        (ClosedQueue(queue=1), ['Queue shut closed | gangplan.dev/closed: "true"']),
        (ClosedQueue(queue=0), [f"{QUEUE}  | name: research"]),
    ],
    "GW114": [
        (
            ReservedNodes(gang=1),
            [f"{TWO}  | name: two", f"{ONE} expected duration | gangplan.dev/expected-duration: 2h"],
        )
    ],
    "GW115": [(StrictOrder(queue=0, gang=1), [f"{TWO}  | name: two", f"{QUEUE} order | gangplan.dev/order: strict"])],
    "GW116": [
        (
            Maintenance(),
            [f"{POOL} maintenance | maintenance:", f"{ONE} expected duration | gangplan.dev/expected-duration: 2h"],
        )
    ],
    "GW117": [(PodRuleConflict(role=0, pod_rule=0), [f"{ONE} rule of role worker | affinity:"])],
    "GW118": [(SlotShortage(2, 1, role=0), [f"{ONE} role worker | - name: worker"])],
    "GW119": [(Fragmentation(2, 1, role=0), [f"{POOL} capacity | capacity:", f"{ONE} role worker | - name: worker"])],
    "GW120": [
        (
            EligibleNodeShortage(2, 1, role=0),
            [
                f"{ONE} node selector of role worker | nodeSelector: {{zone: a}}",
                f"{ONE} tolerations of role worker | tolerations: [{{operator: Exists}}]",
                f"{POOL}  | metadata: {{name: gpu}}",
            ],
        )
    ],
    "GW121": [(OwnRunningPods(2, 1), ["Pods of team/one on gpu-1, gpu-2  | in the cluster"])],
    "GW123": [(ClosedNodeGroups(0, (1,)), [f"{QUEUE} affinity | spec:"])],
    "GW128": [(NodeGroupLimit(8, 4, 0, (1,), 1, 6), [f"{QUEUE} limits of node groups | annotations:"])],
    "GW127": [
        (NobodyEvicted("preempt", (1,)), [f"{TWO}  | name: two"]),
        (NobodyEvicted("queue", (1,), 0), [f"{QUEUE} reclaimable | spec:"]),  # it is not written
        (NobodyEvicted("policy", (1,)), [f"{ONE} priority class | spec:"]),
    ],
    "GW122": [(AwayNodes(nodes=(4,)), ["Node stray  | in the cluster"])],
}


def test_every_code_says_where_it_comes_from() -> None:
    assert CASES.keys() == {kind.code for kind in REASONS} - {"GW111", "GW126"}


@pytest.mark.parametrize("code", CASES)
def test_a_fact_names_the_objects_that_it_comes_from_and_no_others(outcome: Outcome, code: str) -> None:
    assert outcome.problem is not None
    runs = replace(outcome.problem.gangs[0], running=(Placement(0, 1, 1), Placement(0, 2, 1)))
    problem = replace(outcome.problem, gangs=(runs, *outcome.problem.gangs[1:]))
    assert [seen(outcome, 0, fact, problem) for fact, _ in CASES[code]] == [expected for _, expected in CASES[code]]


ROLE, MADE = f"{ONE} role worker | - name: worker", f"{POOL}  | metadata: {{name: gpu}}"
TOPOLOGY = f"{ONE} topology | networkTopology: {{mode: hard, highestTierAllowed: 1}}"
PARTS = f"{ONE} subgroup worker | partitionPolicy: {{totalPartitions: 1, partitionSize: 2}}"
REPAIR_CASES: dict[str, tuple[Repair, list[str]]] = {
    "GR101": (MoreCapability(queue=0, resource=1, amount=8), [f"{QUEUE} capability | nvidia.com/gpu: 16"]),
    "GR102": (HigherTier(tier=2), [TOPOLOGY]),
    "GR103": (EndOfPods(), []),
    "GR104": (MoreNodes(node=0, amount=1, hypernode=0), [MADE, f"{POOL} domain gpu-sn-0 | - {{name: sn, size: 2}}"]),
    "GR105": (FewerPods(0, 1, 2), [ROLE]),
    "GR106": (SmallerSubgroups(0, 1, 2), [PARTS]),
    "GR107": (SoftTopology(subgroup=0), [PARTS]),
    "GR108": (SmallerGuarantee(queue=0, resource=1, amount=8), [f"{QUEUE} guarantee | nvidia.com/gpu: 4"]),
    "GR109": (EndOfGangs(gangs=(1,)), [f"{TWO}  | name: two"]),
    "GR110": (MoreWeight(0, 4, 3), [f"{QUEUE} weight | weight: 3"]),
    "GR111": (OpenQueue(queue=1), ['Queue shut closed | gangplan.dev/closed: "true"']),
    "GR112": (
        MoreNodeClasses(role=0, node=0),
        [
            f"{ONE} node selector of role worker | nodeSelector: {{zone: a}}",
            f"{ONE} tolerations of role worker | tolerations: [{{operator: Exists}}]",
        ],
    ),
    "GR113": (Restart(), []),
    "GR114": (HigherPriority(1), [f"{ONE} priority class | spec:"]),  # it names none yet
    "GR115": (SmallerPods(0, 1, 4, 8), [f"{ONE} {LIMIT}"]),
    "GR116": (ReturnOfNodes(nodes=(4,)), ["Node stray  | in the cluster"]),
    "GR117": (NoStrictOrder(queue=0), [f"{QUEUE} order | gangplan.dev/order: strict"]),
    "GR118": (StartOfGang(gang=1), [f"{TWO}  | name: two"]),
    "GR119": (
        FewerDedicatedDomains(queue=0, amount=1),
        [f"{QUEUE} guaranteed domains | gangplan.dev/guaranteed-domains: 1 of tier 1"],
    ),
    "GR124": (MoreDeserved(0, 1, 24, 16), [f"{QUEUE} deserved | nvidia.com/gpu: 4"]),
    "GR120": (OtherQueue(queue=1), [f"{ONE} queue | queue: research"]),
    "GR121": (ShorterDuration(seconds=9), [f"{ONE} expected duration | gangplan.dev/expected-duration: 2h"]),
    "GR123": (OpenNodeGroups(0, (1,)), [f"{QUEUE} affinity | spec:"]),
    "GR125": (AllowEviction("budget", (1,)), [f"{TWO}  | name: two"]),
    "GR126": (SoftSeparation(), []),
    "GR127": (HigherGroupLimit(0, (1,), 1, 8, 4), [f"{QUEUE} limits of node groups | annotations:"]),
    "GR122": (EndOfMaintenance(seconds=9), [f"{POOL} maintenance | maintenance:"]),
}


def test_every_repair_says_where_it_is_made() -> None:
    assert REPAIR_CASES.keys() == {kind.code for kind in REPAIRS}


@pytest.mark.parametrize("code", REPAIR_CASES)
def test_a_repair_names_the_line_to_change_or_what_is_waited_for(outcome: Outcome, code: str) -> None:
    repair, expected = REPAIR_CASES[code]
    assert seen(outcome, 0, repair) == expected


def test_a_pod_rule_without_an_owning_gang_is_named_by_its_pod(outcome: Outcome) -> None:
    assert outcome.origins is not None
    (guarded,) = (rho for rho, guards in enumerate(outcome.origins.rules.owner_pods) if guards)
    conflict = PodRuleConflict(role=0, pod_rule=guarded)
    assert seen(outcome, 1, conflict) == ["Pod ops/guard rule | in the cluster"]


def test_nodes_that_only_the_cluster_knows_are_named_in_few_words() -> None:
    files = {
        **FILES,
        "cluster-specs/test/all.yaml": "---\n".join(part for part in CLUSTER.split("---\n") if "NodePool" not in part),
    }
    nodes = [{**NODE, "metadata": {"name": f"n-{n}", "labels": {"zone": "a"}}, "spec": {}} for n in range(5)]
    made = compile_repository(
        Repository({name: content.encode() for name, content in files.items()}), state=ClusterState.from_objects(nodes)
    )
    assert seen(made, 0, ResourceShortage(8, 4, resource=1))[0] == "Node n-0 to 4 capacity | in the cluster"


def test_a_suspended_job_points_to_what_its_owner_wrote() -> None:
    paused = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: p, namespace: team}\n"
        "spec:\n  suspend: true\n  template:\n    spec:\n"
    )
    paused += "      restartPolicy: Never\n      containers: [{name: c, image: i}]\n"
    made = compiled(
        **{
            "jobs/paused.yaml": paused,
            "jobs/other.yaml": job("other").replace("spec:\n  queue", "spec:\n  schedulerName: mine\n  queue", 1),
        }
    )
    assert made.origins is not None
    found = {gang.document.name: suspension_sources(gang) for gang in made.origins.left_out.inactive}
    assert [(source.field, source.position and source.position.line) for (source,) in found.values()] == [
        ("scheduler", 9),
        ("suspend", 5),
    ]


def test_a_service_without_room_points_to_its_pods() -> None:
    web = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: team}\nspec:\n"
    web += "  containers: [{name: c, image: i, resources: {requests: {cpu: 9k}}}]\n"
    decided = next(each for each in compiled(**{"jobs/web.yaml": web}).decisions if not each.gang.scheduling.is_bound)
    ((reason,), (source,)) = decided.reasons, decided.reasons[0].sources
    assert (reason.code, source.field, source.position and source.position.line) == ("GW103", "pod", 4)


def test_plan_names_two_lines_explain_all_with_columns_and_json_every_part() -> None:
    made = compiled()
    decided = next(d for d in made.decisions if d.reasons)
    said = decided.reasons[0].sources
    assert said
    assert all(source.position for source in said)
    first = said[0].position
    assert first is not None
    assert f"see {first.file}:{first.line} {said[0].field}" in text.plan_text(made)
    full = explanation_text(made, decided)
    for source in said:
        assert source.position is not None
        assert f"{source.position.file}:{source.position.line}:{source.position.column}: {source.object}" in full
    shown = data.gang_entry(decided)["reasons"][0]["from"]
    assert shown[0] == {
        "object": said[0].object,
        "field": said[0].field,
        "file": first.file,
        "line": first.line,
        "column": first.column,
    }
    assert len(shown) == len(said)
