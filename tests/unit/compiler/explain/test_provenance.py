"""Every fact says which lines of the repository and which things of the cluster it comes from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.cluster_state.state import ClusterState
from compiler.explain.provenance import FACT_SOURCES, REPAIR_SOURCES, Provenance, Source, suspension_sources
from compiler.explain.reasons import REASON_TEMPLATES, REPAIR_TEMPLATES
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository import Repository
from compiler.views import data, text
from compiler.views.explanation import explanation_text
from solver.plan import Fact, Repair
from solver.problem import Placement

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
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: shut
  annotations:
    gangplan.dev/closed: "true"
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
        "containers": [{"name": "c"}],
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


def seen(sources: tuple[Source, ...]) -> list[str]:
    """The object and field, and the text of the line that it points to."""
    found = []
    for source in sources:
        place = source.position
        line = FILES[place.file].splitlines()[place.line - 1].strip() if place else "in the cluster"
        found.append(f"{source.object} {source.field} | {line}")
    return found


POOL, QUEUE, ONE, TWO = "NodePool gpu", "Queue research", "Job team/one", "Job team/two"
LIMIT = "request of role worker | nvidia.com/gpu: 8"
CAPACITY = f"{POOL} capacity | nvidia.com/gpu: 8"


def amount(code: str, **more: object) -> Fact:
    return replace(Fact(code, resource=1), **more)  # type: ignore[arg-type]


CASES: dict[str, list[tuple[Fact, list[str]]]] = {
    "GW101": [
        (amount("GW101", queue=0), [f"{QUEUE} capability | nvidia.com/gpu: 16", f"{ONE} {LIMIT}"]),
        (
            amount("GW101", queue=0, gangs=(1,)),
            [f"{QUEUE} capability | nvidia.com/gpu: 16", f"{TWO}  | name: two", f"{ONE} {LIMIT}"],
        ),
    ],
    "GW102": [(amount("GW102"), [CAPACITY, f"{ONE} {LIMIT}"])],
    "GW103": [(amount("GW103", role=0), [CAPACITY, f"{ONE} {LIMIT}"])],
    "GW104": [
        (
            Fact("GW104", tier=1, hypernode=1),
            [
                f"{POOL} domain gpu-sn-1 | - {{name: sn, size: 2}}",
                f"{ONE} topology | networkTopology: {{mode: hard, highestTierAllowed: 1}}",
            ],
        )
    ],
    "GW105": [(Fact("GW105", gangs=(1,)), [f"{TWO}  | name: two"])],
    "GW106": [
        (amount("GW106", queue=1, queues=(0,)), [f"{QUEUE} guarantee | nvidia.com/gpu: 4", f"{ONE} {LIMIT}"]),
        (
            Fact("GW106", queue=0, tier=1),
            [f"{QUEUE} guaranteed domains | gangplan.dev/guaranteed-domains: 1 of tier 1"],
        ),
    ],
    "GW107": [
        (
            Fact("GW107", role=0),
            [
                f"{ONE} node selector of role worker | nodeSelector: {{zone: a}}",
                f"{ONE} tolerations of role worker | tolerations: [{{operator: Exists}}]",
                f"{POOL}  | metadata: {{name: gpu}}",
            ],
        )
    ],
    "GW108": [(amount("GW108"), [CAPACITY, f"{ONE} {LIMIT}"])],
    "GW109": [
        (
            Fact("GW109", subgroup=0),
            [f"{ONE} subgroup worker | partitionPolicy: {{totalPartitions: 1, partitionSize: 2}}"],
        )
    ],
    "GW110": [(Fact("GW110"), ["Cluster test time limit | timeLimit: 20"])],
    "GW112": [(amount("GW112", queue=0), [f"{QUEUE} weight | weight: 3", f"{ONE} {LIMIT}"])],
    "GW113": [
        (Fact("GW113", queue=1), ['Queue shut closed | gangplan.dev/closed: "true"']),
        (Fact("GW113", queue=0), [f"{QUEUE}  | name: research"]),
    ],
    "GW114": [
        (
            Fact("GW114", gangs=(1,)),
            [f"{TWO}  | name: two", f"{ONE} expected duration | gangplan.dev/expected-duration: 2h"],
        )
    ],
    "GW115": [
        (Fact("GW115", queue=0, gangs=(1,)), [f"{TWO}  | name: two", f"{QUEUE} order | gangplan.dev/order: strict"])
    ],
    "GW116": [
        (
            Fact("GW116"),
            [f"{POOL} maintenance | maintenance:", f"{ONE} expected duration | gangplan.dev/expected-duration: 2h"],
        )
    ],
    "GW117": [(Fact("GW117", role=0, pod_rule=0), [f"{ONE} rule of role worker | affinity:"])],
    "GW118": [(Fact("GW118", role=0), [f"{ONE} role worker | - name: worker"])],
    "GW119": [(Fact("GW119", role=0), [f"{POOL} capacity | capacity:", f"{ONE} role worker | - name: worker"])],
    "GW120": [
        (
            Fact("GW120", role=0),
            [
                f"{ONE} node selector of role worker | nodeSelector: {{zone: a}}",
                f"{ONE} tolerations of role worker | tolerations: [{{operator: Exists}}]",
                f"{POOL}  | metadata: {{name: gpu}}",
            ],
        )
    ],
    "GW121": [(Fact("GW121"), ["Pods of team/one on gpu-1, gpu-2  | in the cluster"])],
    "GW122": [(Fact("GW122", nodes=(4,)), ["Node stray  | in the cluster"])],
}


def test_every_code_says_where_it_comes_from() -> None:
    assert FACT_SOURCES.keys() == CASES.keys() == REASON_TEMPLATES.keys() - {"GW111"}


@pytest.mark.parametrize("code", CASES)
def test_a_fact_names_the_objects_that_it_comes_from_and_no_others(outcome: Outcome, code: str) -> None:
    assert outcome.problem is not None
    assert outcome.origins is not None
    runs = replace(outcome.problem.gangs[0], running=(Placement(0, 1, 1), Placement(0, 2, 1)))
    problem = replace(outcome.problem, gangs=(runs, *outcome.problem.gangs[1:]))
    sources = Provenance(problem, outcome.origins, outcome.specs.cluster.document)
    assert [seen(sources.fact_sources(0, fact)) for fact, _ in CASES[code]] == [expected for _, expected in CASES[code]]


ROLE, MADE = f"{ONE} role worker | - name: worker", f"{POOL}  | metadata: {{name: gpu}}"
TOPOLOGY = f"{ONE} topology | networkTopology: {{mode: hard, highestTierAllowed: 1}}"
PARTS = f"{ONE} subgroup worker | partitionPolicy: {{totalPartitions: 1, partitionSize: 2}}"
REPAIR_CASES: dict[str, tuple[Repair, list[str]]] = {
    "GR101": (Repair("GR101", queue=0, resource=1), [f"{QUEUE} capability | nvidia.com/gpu: 16"]),
    "GR102": (Repair("GR102", tier=2), [TOPOLOGY]),
    "GR103": (Repair("GR103"), []),
    "GR104": (Repair("GR104", nodes=(0,), hypernode=0), [MADE, f"{POOL} domain gpu-sn-0 | - {{name: sn, size: 2}}"]),
    "GR105": (Repair("GR105", role=0), [ROLE]),
    "GR106": (Repair("GR106", subgroup=0), [PARTS]),
    "GR107": (Repair("GR107", subgroup=0), [PARTS]),
    "GR108": (Repair("GR108", queue=0, resource=1), [f"{QUEUE} guarantee | nvidia.com/gpu: 4"]),
    "GR109": (Repair("GR109", gangs=(1,)), [f"{TWO}  | name: two"]),
    "GR110": (Repair("GR110", queue=0), [f"{QUEUE} weight | weight: 3"]),
    "GR111": (Repair("GR111", queue=1), ['Queue shut closed | gangplan.dev/closed: "true"']),
    "GR112": (
        Repair("GR112", role=0, nodes=(0,)),
        [
            f"{ONE} node selector of role worker | nodeSelector: {{zone: a}}",
            f"{ONE} tolerations of role worker | tolerations: [{{operator: Exists}}]",
        ],
    ),
    "GR113": (Repair("GR113"), []),
    "GR114": (Repair("GR114"), [f"{ONE} priority class | spec:"]),  # it names none yet
    "GR115": (Repair("GR115", role=0, resource=1), [f"{ONE} {LIMIT}"]),
    "GR116": (Repair("GR116", nodes=(4,)), ["Node stray  | in the cluster"]),
    "GR117": (Repair("GR117", queue=0), [f"{QUEUE} order | gangplan.dev/order: strict"]),
    "GR118": (Repair("GR118", gangs=(1,)), [f"{TWO}  | name: two"]),
    "GR119": (Repair("GR119", queue=0), [f"{QUEUE} guaranteed domains | gangplan.dev/guaranteed-domains: 1 of tier 1"]),
    "GR120": (Repair("GR120", queue=1), [f"{ONE} queue | queue: research"]),
    "GR121": (Repair("GR121", seconds=9), [f"{ONE} expected duration | gangplan.dev/expected-duration: 2h"]),
    "GR122": (Repair("GR122", seconds=9), [f"{POOL} maintenance | maintenance:"]),
}


def test_every_repair_says_where_it_is_made() -> None:
    assert REPAIR_SOURCES.keys() == REPAIR_CASES.keys() == REPAIR_TEMPLATES.keys()


@pytest.mark.parametrize("code", REPAIR_CASES)
def test_a_repair_names_the_line_to_change_or_what_is_waited_for(outcome: Outcome, code: str) -> None:
    assert outcome.problem is not None
    assert outcome.origins is not None
    repair, expected = REPAIR_CASES[code]
    assert (
        seen(Provenance(outcome.problem, outcome.origins, outcome.specs.cluster.document).repair_sources(0, repair))
        == expected
    )


def test_a_rule_of_a_pod_that_is_nobodys_is_said_by_its_name(outcome: Outcome) -> None:
    assert outcome.problem is not None
    assert outcome.origins is not None
    (guarded,) = (rho for rho, guards in enumerate(outcome.origins.rule_owner_pods) if guards)
    sources = Provenance(outcome.problem, outcome.origins, outcome.specs.cluster.document)
    assert seen(sources.fact_sources(1, Fact("GW117", role=0, pod_rule=guarded))) == [
        "Pod ops/guard rule | in the cluster"
    ]


def test_nodes_that_only_the_cluster_knows_are_named_in_few_words() -> None:
    files = {
        **FILES,
        "cluster-specs/test/all.yaml": "---\n".join(part for part in CLUSTER.split("---\n") if "NodePool" not in part),
    }
    nodes = [{**NODE, "metadata": {"name": f"n-{n}", "labels": {"zone": "a"}}, "spec": {}} for n in range(5)]
    made = compile_repository(
        Repository({name: content.encode() for name, content in files.items()}), state=ClusterState.from_objects(nodes)
    )
    assert made.problem is not None
    assert made.origins is not None
    sources = Provenance(made.problem, made.origins, made.specs.cluster.document)
    assert seen(sources.fact_sources(0, Fact("GW102", resource=1)))[0] == "Node n-0 to 4 capacity | in the cluster"


def test_a_suspended_job_points_to_what_its_owner_wrote() -> None:
    paused = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: p, namespace: team}\nspec:\n  suspend: true\n  template:\n    spec:\n"
    paused += "      restartPolicy: Never\n      containers: [{name: c, image: i}]\n"
    made = compiled(
        **{
            "jobs/paused.yaml": paused,
            "jobs/other.yaml": job("other").replace("spec:\n  queue", "spec:\n  schedulerName: mine\n  queue", 1),
        }
    )
    assert made.origins is not None
    found = {gang.document.name: suspension_sources(gang) for gang in made.origins.inactive_gangs}
    assert [(source.field, source.position and source.position.line) for (source,) in found.values()] == [
        ("scheduler", 9),
        ("suspend", 5),
    ]


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
