"""The oracle's exact model: jobs, their pods on nodes, and the goals of model.md, each maximised and then held."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm

from ortools.sat.python import cp_model

from tests.oracle import rules
from tests.oracle.documents import HyperNode, Job, Node, Term, World

Values = dict[str, Fraction]
"""Goal -> its value, in the order of the goals; those that the plan records are named as there."""

Level = tuple[int, int]
"""(priority of jobs, priority of their queues where a plugin compares it)."""


class ImpossibleError(Exception):
    """The jobs that are to start cannot start together."""


@dataclass
class Model:
    """starts: of each job. claims: its queue claims the job's part of its entitlement. only: the jobs that start, if
    given."""

    world: World
    only: Collection[str] | None = None
    model: cp_model.CpModel = field(default_factory=cp_model.CpModel)
    values: Values = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.starts = {job.name: self.model.new_bool_var(f"y {job.name}") for job in self.world.jobs}
        self.claims = {job.name: self.model.new_bool_var(f"e {job.name}") for job in self.world.jobs}
        self.pods: dict[tuple[str, int, str], cp_model.IntVar] = {}
        for job in self.world.jobs:
            self._place(job)
        self._fill_nodes()
        self._keep_apart()
        self._limit_groups()
        self._limit_queues()
        self._guarantee_queues()
        self._claim_entitlements()
        for name, start in self.starts.items() if self.only is not None else ():
            self.model.add(start == (name in (self.only or ())))

    # ---- what is possible

    @cached_property
    def parents(self) -> dict[str, HyperNode]:
        """Node or hypernode -> the hypernode above it."""
        return {member: above for above in self.world.hypernodes for member in above.members}

    def _line(self, node: Node) -> list[HyperNode]:
        """The hypernodes above a node, the lowest first."""
        found, at = [], self.parents.get(node.name)
        while at is not None:
            found.append(at)
            at = self.parents.get(at.name)
        return found

    def _domains(self, tier: int | None) -> dict[str, list[str]]:
        """Largest domain of at most that tier -> its nodes; the whole cluster without a tier, or above the highest."""
        if tier is None or tier > max((h.tier for h in self.world.hypernodes), default=0):
            return {"": [node.name for node in self.world.nodes]}
        domains: dict[str, list[str]] = {}
        for node in self.world.nodes:
            if below := [h.name for h in self._line(node) if h.tier <= tier]:
                domains.setdefault(below[-1], []).append(node.name)
        return domains

    def _place(self, job: Job) -> None:
        """All pods of a job that starts, on nodes open to its roles, with a hard tier in one domain; of a role with a
        hard tier whole partitions in each domain."""
        domains = self._domains(min((t for t in (job.hard_tier, *(x.tier for x in job.terms)) if t), default=None))
        groups = self.world.queues[job.queue].groups
        chosen = {d: self.model.new_bool_var(f"g {job.name} {d}") for d in domains}
        self.model.add(sum(chosen.values()) == self.starts[job.name])
        for t, role in enumerate(job.roles):
            on = {}
            for node in self.world.nodes:
                if self.world.groups and node.labels.get("volcano.sh/nodegroup-name") not in groups:
                    continue
                if role.selector.items() <= node.labels.items() and (role.tolerates or not node.tainted):
                    on[node.name] = self.model.new_int_var(0, role.pods, f"n {job.name} {t} {node.name}")
                    self.pods[job.name, t, node.name] = on[node.name]
            for d, inside in domains.items():
                self.model.add(sum(on[n] for n in inside if n in on) == role.pods).only_enforce_if(chosen[d])
            self.model.add(sum(on.values()) == role.pods * self.starts[job.name])
            if role.part_tier is not None:
                parts = []
                for d, inside in self._domains(role.part_tier).items():
                    parts.append(self.model.new_int_var(0, role.pods, f"u {job.name} {t} {d}"))
                    self.model.add(sum(on[n] for n in inside if n in on) == role.part_size * parts[-1])
                self.model.add(role.part_size * sum(parts) == role.pods * self.starts[job.name])

    def _fill_nodes(self) -> None:
        roles = {(job.name, t): role for job in self.world.jobs for t, role in enumerate(job.roles)}
        for node in self.world.nodes:
            for r in self.world.totals:
                taken = [n * roles[j, t].asks.get(r, 0) for (j, t, on), n in self.pods.items() if on == node.name]
                self.model.add(sum(taken) <= node.has.get(r, 0))

    def _keep_apart(self) -> None:
        """Of a job and those that one of its terms selects, one at most has pods in a domain of exactly that tier; the
        job has none outside these domains. The whole cluster is one domain, a tier above the highest."""
        highest = max((h.tier for h in self.world.hypernodes), default=0)
        for job, term in [(each, term) for each in self.world.jobs for term in each.terms]:
            inside: dict[str, list[str]] = {}
            for node in self.world.nodes:
                above = {h.tier: h.name for h in self._line(node)} | ({highest + 1: ""} if highest else {})
                if term.tier in above:
                    inside.setdefault(above[term.tier], []).append(node.name)
            open_nodes = {node for nodes in inside.values() for node in nodes}
            self.model.add(sum(n for (j, _, at), n in self.pods.items() if j == job.name and at not in open_nodes) == 0)
            others = [other for other in self.world.jobs if other is not job and _selects(term, other)]
            for d, nodes in inside.items():
                mine = self._is_in(job, nodes, f"{job.name} {term} {d}")
                for other in others:
                    self.model.add_bool_or([mine.negated(), self._is_in(other, nodes, f"{d} {other.name}").negated()])

    def _is_in(self, job: Job, nodes: Collection[str], name: str) -> cp_model.IntVar:
        """Whether the job has pods on one of the nodes."""
        found = self.model.new_bool_var(f"in {name}")
        most = sum(role.pods for role in job.roles)
        pods = [n for (j, _, at), n in self.pods.items() if j == job.name and at in nodes]
        self.model.add(sum(pods) <= most * found)
        return found

    def _limit_groups(self) -> None:
        """What a queue's own jobs hold on the nodes of a group."""
        if not self.world.groups:
            return
        asks = {(job.name, t): (job.queue, role.asks) for job in self.world.jobs for t, role in enumerate(job.roles)}
        group_of = {node.name: node.labels.get("volcano.sh/nodegroup-name") for node in self.world.nodes}
        for name, queue in self.world.queues.items():
            for group, limits in queue.group_limits.items():
                here = [(asks[j, t], n) for (j, t, at), n in self.pods.items() if group_of[at] == group]
                for r, most in limits.items():
                    self.model.add(sum(n * asked.get(r, 0) for (of, asked), n in here if of == name) <= most)

    def _demand(self, queues: Collection[str], r: str) -> cp_model.LinearExprT:
        """What the jobs of these queues that start ask for."""
        return sum(job.demand().get(r, 0) * self.starts[job.name] for job in self.world.jobs if job.queue in queues)

    def _below(self, name: str) -> set[str]:
        """A queue and all under it."""
        children = (self._below(q.name) for q in self.world.queues.values() if q.parent == name)
        return {name}.union(*children)

    def _limit_queues(self) -> None:
        for name, queue in self.world.queues.items():
            for r, most in queue.capability.items():
                self.model.add(self._demand(self._below(name), r) <= most)
            for r, most in rules.ceilings(self.world, name).items() if name in rules.asked(self.world) else ():
                self.model.add(self._demand({name}, r) <= most)

    def _guarantee_queues(self) -> None:
        """What every queue needs is what its jobs and those below need, and no less than its guarantee; in sum no more
        than there is. What guarantees alone exceed limits nothing further."""
        for r in {r for queue in self.world.queues.values() for r in queue.guarantee}:
            self._need("root", r)

    def _need(self, name: str, r: str) -> tuple[cp_model.IntVar, int]:
        """(what the queue needs, what it needs where no job starts)."""
        queue = self.world.queues[name]
        below = [self._need(q.name, r) for q in self.world.queues.values() if q.parent == name]
        most = sum(job.demand().get(r, 0) for job in self.world.jobs)
        most += sum(q.guarantee.get(r, 0) for q in self.world.queues.values())
        need = self.model.new_int_var(queue.guarantee.get(r, 0), most, f"w {name} {r}")
        self.model.add(need >= cp_model.LinearExpr.sum([self._demand({name}, r), *(child for child, _ in below)]))
        before = max(queue.guarantee.get(r, 0), sum(known for _, known in below))
        limits = [
            *([queue.capability[r]] if r in queue.capability else []),
            *([self.world.totals[r]] * (name == "root")),
        ]
        for limit in limits:
            self.model.add(need <= max(limit, before))
        return need, before

    def _claim_entitlements(self) -> None:
        """What a queue claims is within its entitlement, and made good by jobs of at least that priority that start."""
        worth = self._worth()
        for queue, priority in sorted({(job.queue, job.priority) for job in self.world.jobs}):
            names = [job.name for job in self.world.jobs if job.queue == queue and job.priority >= priority]
            claims = [worth[name] * self.claims[name] for name in names]
            self.model.add(sum(claims) <= sum(worth[name] * self.starts[name] for name in names))
        for queue in sorted({job.queue for job in self.world.jobs}):
            for r, most in rules.entitlement(self.world, queue).items():
                mine = [job for job in self.world.jobs if job.queue == queue]
                self.model.add(sum(job.demand().get(r, 0) * self.claims[job.name] for job in mine) <= most)

    # ---- goals

    def _solve(self) -> cp_model.CpSolver | None:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        # The models are so small that presolve and linear relaxations take most of a solve.
        solver.parameters.cp_model_presolve, solver.parameters.linearization_level = False, 0
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            return None
        assert status == cp_model.OPTIMAL, solver.status_name(status)
        self.started = {name for name, start in self.starts.items() if solver.boolean_value(start)}
        return solver

    def hold_most(self, name: str, goal: cp_model.LinearExprT, unit: int = 1) -> int:
        """Maximise, hold, and note the value in `unit`s."""
        self.model.maximize(goal)
        solver = self._solve()
        if solver is None:
            raise ImpossibleError
        value = round(solver.objective_value)
        self.model.add(goal >= value)
        self.values[name] = Fraction(value, unit)
        return value

    def level(self, job: Job) -> Level:
        return job.priority, self.world.queues[job.queue].priority if self.world.plugins else 0

    @cached_property
    def levels(self) -> list[Level]:
        return sorted({self.level(job) for job in self.world.jobs}, reverse=True)

    def decide(self) -> Values:
        """Every goal in order; the values in that order."""
        if self.world.queues_first and len({job.queue for job in self.world.jobs}) > 1:
            self._decide_queues_first()
        else:
            for level in self.levels:
                self._decide_level(level, self.starts, "")
        age = {job.name: len(self.world.jobs) - job.rank for job in self.world.jobs}
        self.hold_most("oldest first", sum(age[name] * start for name, start in self.starts.items()))
        return self.values

    def _decide_queues_first(self) -> None:
        """Queues' priorities come first only where nothing can be taken back."""
        priorities = sorted({level[1] for level in self.levels}, reverse=True)
        for among in [priorities] if self.world.reclaims else [[p] for p in priorities]:
            levels = [level for level in self.levels if level[1] in among]
            for level in levels:
                self._decide_level(level, self.claims, "entitled ")
            here = [job for job in self.world.jobs if self.level(job)[1] in among]
            if not self._all_count(f"all {among}", here, self.starts):
                for priority in among:
                    counted = [job for job in self.world.jobs if self.level(job)[1] >= priority]
                    mine = {job.queue for job in counted if self.level(job)[1] == priority}
                    self._hold_shares(f"shares {priority}", mine, counted, self.starts)
            for level in levels:
                self._place_most(level, self.starts, "")

    def _decide_level(self, level: Level, counts: Mapping[str, cp_model.IntVar], prefix: str) -> None:
        here = [job for job in self.world.jobs if self.level(job) == level]
        if not self._all_count(f"{prefix}all {level}", here, counts):
            counted = [job for job in self.world.jobs if self.level(job) >= level]
            self._hold_shares(f"{prefix}shares {level}", {job.queue for job in here}, counted, counts)
        self._place_most(level, counts, prefix)

    def _all_count(self, name: str, jobs: Sequence[Job], counts: Mapping[str, cp_model.IntVar]) -> bool:
        everyone = self.model.new_bool_var(name)
        self.model.add_bool_and([counts[job.name] for job in jobs]).only_enforce_if(everyone)
        return self.hold_most(name, everyone) == 1

    def _place_most(self, level: Level, counts: Mapping[str, cp_model.IntVar], prefix: str) -> None:
        here = [job for job in self.world.jobs if self.level(job) == level]
        label = (
            f"[{level[0]}]" if sum(of[0] == level[0] for of in self.levels) == 1 else f"[{level[0]}, queues {level[1]}]"
        )
        worth = self._worth()
        self.hold_most(f"{prefix}placed{label}", sum(worth[job.name] * counts[job.name] for job in here))
        self.hold_most(f"{prefix}gangs{label}", sum(counts[job.name] for job in here))

    def _worth(self) -> dict[str, int]:
        """Job -> what it is worth: its dominant resource, exact where one dominates all of them or the shares have a
        small common denominator, else in steps of 1/10,000 of the cluster."""
        totals = {r: total for r, total in self.world.totals.items() if total}
        shares = {
            job.name: {r: Fraction(job.demand().get(r, 0), total) for r, total in totals.items()}
            for job in self.world.jobs
        }
        top = {name: max(of.values(), default=Fraction(0)) for name, of in shares.items()}
        for r in totals:
            if all(of[r] == top[name] for name, of in shares.items()):
                demand = {job.name: job.demand().get(r, 0) for job in self.world.jobs}
                unit = gcd(*demand.values()) or 1
                return {name: max(1, amount // unit) for name, amount in demand.items()}
        exact = lcm(*(share.denominator for share in top.values()))
        scale = exact if exact <= 100_000 else 10_000
        return {name: max(1, round(scale * share)) for name, share in top.items()}

    def _hold_shares(
        self, name: str, queues: Iterable[str], counted: Sequence[Job], counts: Mapping[str, cp_model.IntVar]
    ) -> None:
        """The queues' shares, sorted, as large as can be: the lowest first."""
        compared = sorted(queues)
        if len(compared) < 2:
            return
        scale, shares = self._shares(name, compared, counted, counts)
        most = max(most for _, most in shares)
        for n in range(len(shares)):
            t = self.model.new_int_var(0, most, f"t {name} {n}")
            above = [self.model.new_bool_var(f"b {name} {n} {q}") for q in compared]
            for b, (share, _) in zip(above, shares, strict=True):
                self.model.add(share >= t).only_enforce_if(b)
            self.model.add(sum(above) >= len(shares) - n)
            self.hold_most(f"{name} number {n}", t, scale)

    def _shares(
        self, name: str, queues: Sequence[str], counted: Sequence[Job], counts: Mapping[str, cp_model.IntVar]
    ) -> tuple[int, list[tuple[cp_model.IntVar, int]]]:
        """(a scale, and of each queue its share in 1/scale, with the most that it can be)."""
        parts: dict[str, dict[str, dict[str, Fraction]]] = {}
        measures = {q: rules.measure(self.world, q) for q in queues}
        for q, by in measures.items():
            mine = [job for job in counted if job.queue == q]
            parts[q] = {
                r: {job.name: Fraction(job.demand().get(r, 0), per) / by.weight for job in mine}
                for r, per in by.per.items()
                if per
            }
        scale = lcm(*(part.denominator for of in parts.values() for row in of.values() for part in row.values()))
        found = []
        for q, by in measures.items():
            rows = [{j: int(part * scale) for j, part in row.items()} for row in parts[q].values()]
            most = by.base * scale + max((sum(row.values()) for row in rows), default=0)
            share = self.model.new_int_var(0, most, f"share {name} {q}")
            sums = [sum(part * counts[j] for j, part in row.items()) + by.base * scale for row in rows]
            self.model.add_max_equality(share, sums or [by.base * scale])
            found.append((share, most))
        return scale, found

    # ---- what placing them costs

    def least_cost(self) -> Values:
        """The least cost of placing the jobs that start, goal after goal."""
        tiers = sorted({h.tier for h in self.world.hypernodes})
        self._hold_least("subgroups", sum(4**rank * self._split_parts(tier) for rank, tier in enumerate(tiers)))
        used: dict[tuple[str, str], cp_model.IntVar] = {}
        for (name, t, node), pods in self.pods.items():
            on = used.setdefault((name, node), self.model.new_bool_var(f"on {name} {node}"))
            most = next(job.roles[t].pods for job in self.world.jobs if job.name == name)
            self.model.add(pods <= most * on)
        spread: list[cp_model.LinearExprT] = []
        for rank, tier in enumerate(tiers):
            domains: dict[tuple[str, str], cp_model.IntVar] = {}
            for name, node in used:
                of = name, self._domain(node, tier)
                touched = domains.setdefault(of, self.model.new_bool_var(f"touches {of} {tier}"))
                self.model.add_implication(used[name, node], touched)
            spread.append(4**rank * (sum(domains.values()) - sum(self.starts.values())))
        self._hold_least("spread", sum(spread))
        opened = self._opened()
        leaves: dict[str, cp_model.IntVar] = {}
        for node, is_open in opened.items():
            if node in self.parents:
                leaf = leaves.setdefault(self.parents[node].name, self.model.new_bool_var(f"supernode of {node}"))
                self.model.add_implication(is_open, leaf)
        self._hold_least("supernodes", sum(leaves.values()))
        self._hold_least("nodes", sum(opened.values()))
        return self.values

    def _split_parts(self, tier: int) -> cp_model.LinearExprT:
        """Partitions that are not whole in one domain of the tier."""
        split: list[cp_model.LinearExprT] = []
        for job in self.world.jobs:
            for t, role in ((t, role) for t, role in enumerate(job.roles) if role.part_size):
                inside: dict[str, list[cp_model.IntVar]] = {}
                for (name, of, node), pods in self.pods.items():
                    if (name, of) == (job.name, t):
                        inside.setdefault(self._domain(node, tier), []).append(pods)
                split.append(role.pods // role.part_size * self.starts[job.name])
                for d, pods_there in inside.items():
                    whole = self.model.new_int_var(0, role.pods, f"whole {job.name} {t} {d} {tier}")
                    self.model.add(role.part_size * whole <= sum(pods_there))
                    split.append(-whole)
        return sum(split)

    def _hold_least(self, name: str, cost: cp_model.LinearExprT) -> None:
        self.values[name] = Fraction(-self.hold_most(name, -cost))

    def _domain(self, node: str, tier: int) -> str:
        """The node's domain at a tier: where there is none, the one below; outside the topology one for all."""
        at = next(each for each in self.world.nodes if each.name == node)
        line = self._line(at)
        return next((h.name for h in reversed(line) if h.tier <= tier), line[0].name if line else "")

    def _opened(self) -> dict[str, cp_model.IntVar]:
        """Node -> whether a pod asks for one of the devices that it has, or of all that it has where it has none."""
        opened = {}
        for node in self.world.nodes:
            has = {r for r in self.world.totals if node.has.get(r, 0)}
            counts = {r for r in has if "/" in r} or has
            if counts:
                opened[node.name] = self.model.new_bool_var(f"opens {node.name}")
        for (name, t, node_name), pods in self.pods.items():
            role = next(job for job in self.world.jobs if job.name == name).roles[t]
            node = next(each for each in self.world.nodes if each.name == node_name)
            has = {r for r in self.world.totals if node.has.get(r, 0)}
            counts = {r for r in has if "/" in r} or has
            if any(role.asks.get(r, 0) for r in counts):
                self.model.add(pods <= role.pods * opened[node_name])
        return opened


def _selects(term: Term, job: Job) -> bool:
    is_inside = term.namespace in (None, job.name.split("/")[0])
    return is_inside and term.labels.items() <= job.labels.items()


# ---- overtaking


def overtaken(world: World, started: Collection[str]) -> list[tuple[Job, set[str]]]:
    """The jobs that wait although they could start if those of lower priority in their queue did not, with these."""
    found = []
    for job in world.jobs:
        in_queue = [other for other in world.jobs if other.queue == job.queue and other.name in started]
        lower = {other.name for other in in_queue if other.priority < job.priority}
        if job.name not in started and lower and can_start(world, {*started, job.name} - lower):
            found.append((job, lower))
    return found


def can_start(world: World, names: Collection[str]) -> bool:
    return Model(world, names)._solve() is not None


def best(world: World) -> tuple[Values, set[str]]:
    """The values of the best set of jobs of which none is overtaken, and the set."""
    cuts: list[tuple[Job, set[str], set[str]]] = []
    while True:
        model = Model(world)
        for job, lower, started in cuts:
            _forbid(model, job, lower, started)
        values = model.decide()
        found = overtaken(world, model.started) if world.queues_first else []
        if not found:
            return values, model.started
        cuts += [(job, lower, set(model.started)) for job, lower in found]


def _forbid(model: Model, job: Job, lower: Collection[str], started: Collection[str]) -> None:
    """The job was overtaken by `lower` in `started`, and would be in any set of the others of these with some of
    lower priority: what starts next to more also starts next to less."""
    below = {o.name for o in model.world.jobs if o.queue == job.queue and o.priority < job.priority}
    others = [start for name, start in model.starts.items() if name not in started and name not in below]
    some = model.model.new_bool_var("overtakes")
    for name in below:
        model.model.add_implication(model.starts[name], some)
    model.model.add_bool_or([*others, some.negated()])
