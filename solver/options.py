"""How hard to try. Nothing here changes what a valid plan is."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from solver.clock import Clock


@dataclass(frozen=True, slots=True)
class Budget:
    """Deterministic work limits of one solve: sizes of models, branch-and-bound nodes, tries. None changes which plans
    are valid; where one is reached, the verdict shows it. Measured so that 10,000 nodes and 1,000 gangs take seconds.
    Raises ValueError, naming the limit, for a negative one."""

    # Admission: which gangs start
    joint_variables: int = 800
    """Pod variables up to which one model decides all priorities and proves fair shares; larger ones take minutes."""
    share_variables: int = 2_000
    """Pod variables above which fair shares stay the greedy's and are only bounded: most of a large model's time."""
    fair_levels: int = 4
    """Levels of progressive filling solved per priority; queues beyond them share by resources placed."""
    overtaking_cuts: int = 8
    """Times that gangs overtaken in their own queue make one model be solved again; beyond, the last answer stays."""
    turns: int = 100
    """Gangs beyond entitlements that are decided one by one where evictions help; more start in batches."""
    batch_variables: int = 3_000
    """Pod variables of one model of gangs of one priority: of one above it HiGHS takes seconds for each root."""
    free_batch_variables: int = 15_000
    """The same where nothing binds the gangs to domains, nor pods to other pods: roots of such models are fast, and
    batches of a fifth of that lost 4 % of the GPUs of openb's `gpuspec33-shared`."""
    node_model_factor: int = 2
    """Times `free_batch_variables`: size of a model of single nodes for pods that may go anywhere."""
    refining_nodes: int = 100
    """Branch-and-bound nodes for questions that refine: queues above a level, gangs that waited longest."""
    share_nodes: int = 1
    """Branch-and-bound nodes for a fair share in a model above `joint_variables`: the root mostly settles it."""

    # Greedy
    domain_tries: int = 6
    """Domains of one tier in which the greedy tries a gang, best fit first. Counting per domain is nearly exact."""
    domain_tries_with_rules: int = 32
    """The same for a gang with pod rules, for which counting is less exact."""
    subgroup_tries: int = 8
    """Domains tried for one subgroup of a gang with pod rules, best fit first."""

    # Placement: exact models
    placement_variables: int = 400
    """Pod variables up to which one model places a batch; larger batches are searched by neighbourhoods."""
    placement_nodes: int = 20
    """Branch-and-bound nodes for a placement of `placement_variables`, proportionally more for a smaller one."""
    relaxed_variables: int = 4_000
    """Pod variables up to which the linear relaxation bounds the span of all gangs: tenths of a second."""
    pack_pairs: int = 500
    """Pairs of pod request and node (or slot) up to which a model packs a bucket; a larger one is split."""
    repack_pairs: int = 200
    """Pairs of gang role and node up to which a packed bucket is packed again to open fewer nodes."""
    searched_buckets: int = 400
    """Buckets of the cluster (supernodes of one node class) up to which neighbourhoods of gangs of several pod classes
    are searched: on 625 they took a third of the time of all decisions, and gained none of the span."""

    # Placement: neighbourhoods of a few gangs
    neighbourhoods: int = 4
    """Neighbourhoods placed again, each at the root of its model only: about a second each."""
    neighbourhood_failures: int = 2
    """Neighbourhoods that may bring nothing before no more are tried."""
    neighbourhood_variables: int = 250
    """Pod variables of one neighbourhood: the root of a larger model takes seconds."""
    neighbourhood_buckets: int = 32
    """Buckets of the target domain, most room first, so that the model does not grow with the cluster."""
    neighbourhood_gangs: int = 3
    """Gangs that must share a model of all buckets; fewer move within one domain, together with others."""
    neighbourhood_spare_buckets: int = 8
    """Buckets outside the domain, most room first, for gangs that make way."""

    # Placement: neighbourhoods of gangs with identical pods
    class_variables: int = 800
    """Variables of one model of identical pods: a second or two."""
    class_total_variables: int = 2_000
    """Variables of all such models of one batch together, however many pod classes and domains there are."""
    class_relaxed_variables: int = 6_000
    """Variables up to which the relaxation of such a model is solved: tenths of a second."""
    class_nodes: int = 20
    """Branch-and-bound nodes of one such model; most are proved at the root."""
    class_domain_sets: int = 40
    """Sets of domains examined for one pod class."""
    class_failures: int = 2
    """Consecutive models of one pod class that may bring nothing before no more are solved."""

    # Placement: other searches
    exchange_nodes: int = 100
    """Branch-and-bound nodes for the model of one node's pods; the root mostly settles it."""
    exchange_models: int = 1_000
    """Models of one node's pods in one batch; each takes a hundredth of a second."""
    affinity_exchanges: int = 100_000
    """Exchanges of pods examined for the role affinity of one gang in one leaf: about a second."""
    growth_strides: int = 32
    """Strides into which a role's growth is divided: queues take turns, and 100,000 pods grow in seconds."""

    # Preemption
    preemptor_variables: int = 2_000
    """Pod variables up to which several preemptors get their victims from one model; 0: one after another."""
    preemptor_node_factor: int = 4
    """Gangs times nodes, in units of `preemptor_variables`, up to which the nodes of a joint model are looked for."""
    eviction_nodes: tuple[int, ...] = (96, 768, 3_072)
    """Nodes in a model of victims, one try after another until its answer is proved."""

    # Diagnosis of one class of waiting gangs
    diagnosis_seconds: float = 5.0
    """Seconds for one exact model that asks whether a gang fits; the plan's own time limit is over by then."""
    fact_models: int = 12
    """Exact models that facts may ask."""
    paired_obstacles: int = 6
    """Obstacles up to which every pair is tried as the cause."""
    minimized_blockers: int = 32
    """Blocking gangs (or nodes) up to which each is tried for whether it can be spared."""
    repairs: int = 4
    """Most repairs listed: more do not help a reader."""
    enough_repairs: int = 2
    """With fewer repairs of one change, more nodes and then two changes are tried."""
    repair_questions: int = 60
    """Questions about nodes that repairs may ask."""
    eviction_reasons: int = 20
    """Waiting gangs, the highest priorities first, of which it is asked why nobody is evicted for them."""
    repair_models: int = 6
    """Exact models that repairs may ask."""
    repair_variables: int = 2_000
    """Pod variables, every node a bucket of its own, up to which such a model is asked."""
    limit_rounds: int = 6
    """Queue limits changed one after another: raising one may show the next."""
    weight_factor: int = 64
    """A queue's weight is raised to at most this many times its value."""
    added_node_types: int = 3
    """Makes of nodes of which more are tried."""
    added_nodes: int = 4_096
    """Nodes added at most; a gang that lacks more needs another cluster."""
    rivals: int = 16
    """Other waiting gangs, of different classes, of which it is asked whether they take nodes added for one."""
    added_node_classes: int = 4
    """Further node classes tried for a role."""
    single_ends: int = 8
    """Running gangs whose end alone is tried, the smallest first."""
    ended_gangs: int = 8
    """Most gangs in a repair that waits for their ends: more is not a useful answer."""
    maintenance_ends: int = 8
    """Ends of maintenance tried, the soonest first."""

    # Executors
    work_per_row: int = 2
    """Work (`Mapper`) for each pair of a role and a bucket open to it, measured with 1,000 and 10,000 nodes."""
    remote_work: int = 4_000_000
    """Least work for which processes are started: that takes about a second, which two of them must save first."""
    sent_work: int = 500_000
    """Least work sent to running processes: sending takes some hundredths of a second."""
    worker_start_seconds: float = 3.0
    """With less time left no processes are started: they would be ready when the time is over."""
    worker_chunks: int = 4
    """Chunks of tasks for each worker: few, since each carries the shared argument; several, since tasks differ."""

    # Engine
    cuts: int = 100
    """Cuts that HiGHS keeps (default 10,000): separating more costs most of the root's time and gains no bound."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            _check_not_negative(limit.name, min(value) if isinstance(value, tuple) else value)


@dataclass(frozen=True, slots=True)
class Options:
    """Limits of one call of `solver.solve`. Raises ValueError, naming the option, for an invalid value.

    gap: relative gap at which an objective may stop; 0 asks for a proof. time_limit: seconds for plan and reasons, the
    last safety; when it is reached the verdicts show it. max_nodes: branch-and-bound nodes of one solve, the
    deterministic limit that normally is reached first. clock: of the caller, where it must return earlier; of the work
    under way, inside.
    """

    gap: float = 0.0
    time_limit: float = 60.0
    max_nodes: int = 2_000
    seed: int = 7
    budget: Budget = field(default_factory=Budget)
    clock: Clock = field(default_factory=Clock, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("gap", "time_limit", "max_nodes"):
            _check_not_negative(name, getattr(self, name))

    def within(self, share: float) -> Options:
        """Return the same options for work that ends with this share of the time left."""
        return replace(self, clock=self.clock.within(share * self.clock.seconds_left()))


def _check_not_negative(name: str, value: float) -> None:
    if not value >= 0:  # false for NaN too
        raise ValueError(f"{name}: {value} is not 0 or more")
