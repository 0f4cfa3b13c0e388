"""Anti-affinity of PodGroups by topology: plans of one PodGroup against all domains that Volcano 1.16 may choose.

Volcano's rule is written here a second time, from its design: of the hypernodes, and of the root above them, those are
candidates that lie in a domain of each term's tier which no selected PodGroup holds; the gang goes into one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from compiler.cluster_state.cluster_state import ClusterState
from compiler.kubernetes import Object
from compiler.lower.lowering import lower
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec, VolcanoVersion
from compiler.specs.gang_spec import GangSpec, GroupTerm, PodGroupSpec, TopologySpec
from compiler.specs.node_spec import HyperNodeSpec
from solver.verify import verify
from tests.builders.cluster_objects import pod
from tests.builders.declared import declared
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs
from tests.builders.specs import document, hypernode, node, role, specs
from tests.builders.strategies import sampled
from tests.property.plan_events import rare_events

GROUP = "scheduling.volcano.sh/v1beta1"
ROOT = "root"
GPUS = 4


@dataclass(frozen=True)
class World:
    """parents: hypernode -> the one above it. leaves: node -> hypernode, None outside the topology. groups: (labels,
    nodes of its pods) of each PodGroup that runs."""

    tiers: Mapping[str, int]
    parents: Mapping[str, str]
    leaves: Sequence[str | None]
    groups: Sequence[tuple[Mapping[str, str], Sequence[int]]]
    terms: Sequence[tuple[int, str]]
    pods: int
    gpus: int
    topology: int | None

    def path(self, h: str | None) -> list[str]:
        """The hypernode and those above it, the root last."""
        found = []
        while h is not None:
            found.append(h)
            h = self.parents.get(h)
        return [*found, ROOT]

    def tier(self, h: str) -> int:
        return max(self.tiers.values()) + 1 if h == ROOT else self.tiers[h]

    def domain(self, h: str | None, tier: int) -> str | None:
        return next((above for above in self.path(h) if self.tier(above) == tier), None)

    def is_candidate(self, h: str) -> bool:
        if self.topology is not None and self.tier(h) > self.topology:
            return False
        for tier, label in self.terms:
            taken = {
                self.domain(self.leaves[n], tier)
                for labels, nodes in self.groups
                for n in nodes
                if label in ("", labels["app"])
            }
            home = self.domain(None if h == ROOT else h, tier)
            if home is None or home in taken:
                return False
        return True

    def nodes_below(self, h: str) -> list[int]:
        return [n for n, leaf in enumerate(self.leaves) if h in self.path(leaf)]

    def room(self, h: str) -> int:
        held = Counter(n for _, nodes in self.groups for n in nodes)
        return sum(max(0, GPUS - held[n]) // self.gpus for n in self.nodes_below(h))

    @property
    def candidates(self) -> list[str]:
        return [h for h in (*self.tiers, ROOT) if self.is_candidate(h)]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Racks of tier 1, some of them in spines of tier 2 or 3, the others alone; nodes in racks, or in none."""
    racks, spines = draw(st.integers(1, 4)), draw(st.integers(0, 2))
    tiers = {f"rack{n}": 1 for n in range(racks)} | {f"spine{n}": draw(sampled((2, 2, 3))) for n in range(spines)}
    above = (*(f"spine{n}" for n in range(spines)), *((None,) if spines < 2 else ()))
    parents = {f"rack{n}": up for n in range(racks) if (up := draw(sampled(above))) is not None}
    tiers = {name: tier for name, tier in tiers.items() if name.startswith("rack") or name in parents.values()}
    homes: tuple[str | None, ...] = (*(f"rack{n}" for n in range(racks)), *(f"rack{n}" for n in range(racks)), None)
    leaves = [f"rack{n}" for n in range(racks)] + [draw(sampled(homes)) for _ in range(draw(st.integers(0, 3)))]
    places = st.lists(st.integers(0, len(leaves) - 1), min_size=1, max_size=2)
    groups = [({"app": draw(sampled(("x", "y")))}, draw(places)) for _ in range(draw(st.integers(0, 3)))]
    terms = [
        (draw(sampled((1, 1, 2, 3, 4, 9))), draw(sampled(("x", "y", "")))) for _ in range(draw(sampled((1, 1, 2))))
    ]
    topology = draw(sampled((None, None, 1, 2)))
    return World(tiers, parents, leaves, groups, terms, draw(st.integers(1, 3)), draw(st.integers(1, 4)), topology)


def hypernodes(world: World) -> tuple[HyperNodeSpec, ...]:
    return tuple(
        hypernode(
            name,
            tier,
            nodes=tuple(f"n{n}" for n, leaf in enumerate(world.leaves) if leaf == name),
            hypernodes=tuple(child for child, parent in world.parents.items() if parent == name),
        )
        for name, tier in world.tiers.items()
    )


def asking(world: World) -> GangSpec:
    terms = tuple(
        GroupTerm((("app", "In", (label,)),) if label else (), None, tier, None, ()) for tier, label in world.terms
    )
    made = document("PodGroup", "asks", "team", GROUP)
    topology = None if world.topology is None else TopologySpec("hard", world.topology)
    return GangSpec(
        made,
        "default",
        None,
        world.pods,
        (role("r", world.pods, world.gpus),),
        topology,
        pod_group=PodGroupSpec(made, terms),
    )


def cluster(world: World) -> list[Object]:
    found: list[Object] = []
    for number, (labels, nodes) in enumerate(world.groups):
        found.append(declared("PodGroup", f"g{number}", namespace="team", labels=labels))
        notes = {"scheduling.k8s.io/group-name": f"g{number}"}
        found += [
            pod(f"g{number}-{index}", f"n{n}", requests={"nvidia.com/gpu": "1"}, annotations=notes)
            for index, n in enumerate(nodes)
        ]
    return found


def test_it_starts_in_a_candidate_of_volcano_or_there_is_none_with_room() -> None:
    seen = Counter[str]()

    @settings(max_examples=150)
    @given(worlds())
    def started(world: World) -> None:
        plugins = tuple(PluginSpec(name, {}, {}) for name in ("gang", "predicates", "group-topology-affinity"))
        conf = SchedulerSpec(document("SchedulerConfiguration", "c"), "c", "n", ("allocate",), (plugins,), {})
        machines = tuple(node(f"n{n}", GPUS) for n in range(len(world.leaves)))
        made = specs(nodes=machines, gangs=(asking(world),), hypernodes=hypernodes(world), scheduler=conf)
        made = replace(made, cluster=replace(made.cluster, volcano=VolcanoVersion(16, None)))
        problem, _ = lower(made, ClusterState.from_objects(cluster(world)))
        plan = solve_without_repairs(problem)
        assert verify(problem, plan) == []
        (decision,) = plan.decisions
        roomy = [h for h in world.candidates if world.room(h) >= world.pods]
        assert (decision.action == "start") == bool(roomy)
        nodes = {place.node for place in decision.placements}
        if nodes:
            assert any(nodes <= set(world.nodes_below(h)) for h in roomy)
        bare = replace(world, terms=())
        could = any(bare.is_candidate(h) and bare.room(h) >= world.pods for h in (*world.tiers, ROOT))
        seen["starts" if roomy else "kept apart" if could else "full"] += 1
        seen["never"] += any(fact.never for fact in decision.facts)

    started()
    assert rare_events(seen, starts=30, **{"kept apart": 30, "never": 5}) == {}
