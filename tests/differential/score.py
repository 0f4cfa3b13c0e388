"""What an outcome is worth by the goals of model.md, queues first, read from plain data: nothing of the solver is
used here. Worlds with one scarce resource, GPUs, only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations

from tests.builders.queue_rules import QueueRules, QueueTerms
from tests.differential.world import Amounts, JobData, QueueData, TaskData, Where, World

Score = tuple[object, ...]


def _gpus(given: Amounts | None) -> int | None:
    return None if given is None else given.get("gpu", 0)


@dataclass(frozen=True)
class Entitlements:
    """What the queues of a world may hold before they borrow, by its plugins: the reference of queue semantics, of
    GPUs."""

    world: World

    @property
    def total(self) -> int:
        return self.rules.totals["gpu"]

    @property
    def uses_capacity(self) -> bool:
        return "capacity" in self.world.plugins

    @property
    def uses_proportion(self) -> bool:
        return "proportion" in self.world.plugins

    @cached_property
    def rules(self) -> QueueRules[str]:
        asked = self._asked()
        queues = {
            queue.name: QueueTerms(
                queue.parent,
                queue.weight,
                _said(queue.guarantee),
                _said(queue.deserved),
                _said(queue.capability),
                {"gpu": asked[queue.name]} if queue.name in asked else None,
            )
            for queue in self.world.queues
        }
        plugin = "capacity" if self.uses_capacity else "proportion" if self.uses_proportion else ""
        totals = {"gpu": sum(node["gpu"] for node in self.world.nodes)}
        return QueueRules(queues, totals, plugin, self.world.hierarchical, others_remain=True)

    def _asked(self) -> dict[str, int]:
        """Queue with jobs -> all that they ask for, running or not; nothing for those that get no pods."""
        found: Counter[str] = Counter()
        for job in self.world.jobs:
            asked = sum(task.replicas * task.request["gpu"] for task in job.tasks)
            found[job.queue] += 0 if self._is_never_enqueued(job) else asked
        return dict(found)

    def _is_never_enqueued(self, job: JobData) -> bool:
        if not self.uses_proportion or "enqueue" not in self.world.actions or job.running or job.tier is not None:
            return False
        guaranteed = sum(_gpus(each.guarantee) or 0 for each in self.world.queues if each.name != job.queue)
        own = _gpus(self.world.queue(job.queue).capability)
        left = max(0, sum(node["gpu"] for node in self.world.nodes) - guaranteed)
        return least_amount(job) > (left if own is None else min(own, left))

    def path(self, name: str) -> list[QueueData]:
        """The queue, and with a hierarchy those above it."""
        return [self.world.queue(each) for each in self.rules.path(name)]

    def below(self, name: str) -> list[str]:
        """The queue and those below it."""
        return self.rules.below(name)

    def guarantee(self, queue: QueueData) -> int:
        return self.rules.guarantee(queue.name, "gpu")

    @cached_property
    def of(self) -> dict[str, int | None]:
        """Queue -> its entitlement; None where it has none of its own because only its descendants have."""
        return {queue.name: self.rules.entitlement(queue.name, "gpu") for queue in self.world.queues}


def _said(amounts: Amounts | None) -> dict[str, int]:
    return {} if amounts is None else {"gpu": amounts.get("gpu", 0)}


@dataclass(frozen=True)
class Gang:
    """A job that could start anew, at its minima."""

    name: str
    queue: str
    level: tuple[int, int]
    amount: int


@dataclass
class Judge:
    """Judges outcomes of one world. held: queue -> what pods hold that ran at first and still do (those of one outcome
    are the same as of another where nothing was evicted)."""

    world: World
    kept: Mapping[Where, int]
    due: Entitlements = field(init=False)

    def __post_init__(self) -> None:
        self.due = Entitlements(self.world)

    # --- what starts

    @cached_property
    def gangs(self) -> dict[str, Gang]:
        """Job -> gang, of the jobs that do not run at first."""
        return {job.name: self._gang(job) for job in self.world.jobs if not job.running}

    def _gang(self, job: JobData) -> Gang:
        priority = self.world.queue(job.queue).priority if self.due.uses_capacity or self.due.uses_proportion else 0
        return Gang(job.name, job.queue, (job.priority, priority), least_amount(job))

    def started(self, running: Mapping[Where, int]) -> frozenset[str]:
        """The jobs that did not run at first and now have their minima."""
        return frozenset(name for name in self.gangs if has_minima(self.world.job(name), running))

    @cached_property
    def held(self) -> dict[str, int]:
        found = {queue.name: 0 for queue in self.world.queues}
        for (name, task, _), pods in self.kept.items():
            job = self.world.job(name)
            if job.running:
                found[job.queue] += pods * job.task(task).request["gpu"]
        return found

    # --- what queues claim

    @cached_property
    def claims(self) -> list[frozenset[str]]:
        """All sets of waiting gangs that entitlements cover together."""
        names = sorted(self.gangs)
        every = (frozenset(c) for number in range(len(names) + 1) for c in combinations(names, number))
        return [chosen for chosen in every if self.is_covered(chosen)]

    def is_covered(self, chosen: Collection[str]) -> bool:
        """Whether the entitlements of all queues cover these gangs, next to what runs."""
        for queue in self.world.queues:
            limit, below = self.due.of[queue.name], self.due.below(queue.name)
            if limit is not None:
                room = max(0, limit - sum(self.held[each] for each in below))
                if sum(self.gangs[name].amount for name in chosen if self.gangs[name].queue in below) > room:
                    return False
        return True

    def claims_with(self, started: Collection[str]) -> list[frozenset[str]]:
        """Those that are made good by gangs of at least their precedence that start in the same queue."""
        made = self._up_to_each_level(started)
        return [
            chosen
            for chosen in self.claims
            if all(amount <= made[at] for at, amount in self._up_to_each_level(chosen).items())
        ]

    def _up_to_each_level(self, names: Collection[str]) -> dict[tuple[str, tuple[int, int]], int]:
        """(queue, level) -> what gangs of this and higher levels take there."""
        return {
            (queue, level): sum(
                self.gangs[name].amount
                for name in names
                if self.gangs[name].queue == queue and self.gangs[name].level >= level
            )
            for queue, level in {(gang.queue, gang.level) for gang in self.gangs.values()}
        }

    def _claimed(self, chosen: frozenset[str], queue: str) -> Score:
        return self._levels(frozenset(name for name in chosen if self.gangs[name].queue == queue), self.levels, False)

    @cached_property
    def levels(self) -> list[tuple[int, int]]:
        return sorted({gang.level for gang in self.gangs.values()}, reverse=True)

    def claims_more(self, after: Collection[str], before: Collection[str], queue: str) -> bool:
        """Whether this queue claims more with the gangs `after`, and no other queue less."""
        best = max(
            self.claims_with(before), key=lambda chosen: (self._levels(chosen, self.levels, False), sorted(chosen))
        )
        others = [each.name for each in self.world.queues if each.name != queue]
        return any(
            self._claimed(chosen, queue) > self._claimed(best, queue)
            and all(self._claimed(chosen, each) == self._claimed(best, each) for each in others)
            for chosen in self.claims_with(after)
        )

    def best_claim(self, started: Collection[str]) -> Score:
        """The most, level by level, that queues claim with these gangs."""
        return max(self._levels(chosen, self.levels, shares=False) for chosen in self.claims_with(started))

    def may_yield(self, name: str, gang: Gang) -> bool:
        """Whether a started gang comes after the gang: without reclaim not where its queue has a higher priority."""
        other = self.gangs[name]
        return other.queue != gang.queue and (self.reclaims or other.level[1] <= gang.level[1])

    @property
    def reclaims(self) -> bool:
        return any(action in ("reclaim", "gangreclaim") for action in self.world.actions)

    def entitled_growth(self, running: Mapping[Where, int]) -> int:
        """What pods above the minima of their jobs hold that entitlements cover in addition to all minima."""
        held, least = Counter[str](), Counter[str]()
        for job in self.world.jobs:
            amount = sum(
                pods * job.task(task).request["gpu"] for (name, task, _), pods in running.items() if name == job.name
            )
            held[job.queue] += amount
            least[job.queue] += min(amount, least_amount(job))
        limits = {queue.name: self.due.of[queue.name] for queue in self.world.queues}
        covered = {name: held[name] if limit is None else min(held[name], limit) for name, limit in limits.items()}
        return sum(max(0, amount - least[name]) for name, amount in covered.items())

    def entitled_growth_instead(self, running: Mapping[Where, int], gone: str) -> list[str]:
        """Jobs that could have a pod more within their queue's entitlement were the gang that is gone not there. One
        that lost pods does not grow."""
        left = {where: pods for where, pods in running.items() if where[0] != gone}
        home, found = self.world.job(gone).queue, []
        for job in self.world.jobs:
            shrunk = any(left.get((job.name, task, node), 0) < pods for task, node, pods in job.running)
            elastic = job.tier is None and not shrunk and has_minima(job, left)
            for task in job.tasks if elastic and job.queue != home else ():
                pods = sum(number for (name, role, _), number in left.items() if (name, role) == (job.name, task.name))
                if pods < task.replicas and self._may_grow(left, job, task):
                    found.append(job.name)
        return sorted(set(found))

    def _may_grow(self, left: Mapping[Where, int], job: JobData, task: TaskData) -> bool:
        """Whether a pod more of this task finds a node, and entitlement, capability and others' guarantees cover it."""
        size, held = task.request["gpu"], Counter({queue.name: 0 for queue in self.world.queues})
        free = {f"n{n}": node["gpu"] for n, node in enumerate(self.world.nodes)}
        for (name, role, node), pods in left.items():
            amount = pods * self.world.job(name).task(role).request["gpu"]
            held[self.world.job(name).queue] += amount
            free[node] -= amount
        held[job.queue] += size
        below = {queue.name: sum(held[each] for each in self._subtree(queue.name)) for queue in self.world.queues}
        limits = [(queue, _gpus(queue.capability)) for queue in self.world.queues]
        paths = [
            (sum(held[each] for each in self.due.below(q.name)), self.due.of[q.name]) for q in self.due.path(job.queue)
        ]
        return (
            max(free.values()) >= size
            and all(limit is None or amount <= limit for amount, limit in paths)
            and all(limit is None or below[queue.name] <= limit for queue, limit in limits)
            and sum(self._needed(queue, held) for queue in self.world.queues if queue.parent is None) <= self.due.total
        )

    # --- what is allowed

    def overtaken(self, running: Mapping[Where, int]) -> list[str]:
        """Gangs that wait and could start if gangs of lower priority in their queue did not."""
        started, found = self.started(running), []
        for name in sorted(self.gangs.keys() - started):
            gang = self.gangs[name]
            lower = {other for other in started if self.gangs[other].queue == gang.queue}
            lower = {other for other in lower if self.gangs[other].level < gang.level}
            left = {where: pods for where, pods in running.items() if where[0] not in lower}
            if lower and self.is_allowed(started - lower | {name}) and fits(self.world, left, [name]):
                found.append(name)
        return found

    def is_allowed(self, started: Collection[str]) -> bool:
        """Whether capabilities are kept, and what others are guaranteed stays free."""
        held = Counter(self.held)
        for name in started:
            held[self.gangs[name].queue] += self.gangs[name].amount
        for queue in self.world.queues:
            limit = _gpus(queue.capability)
            if limit is not None and sum(held[each] for each in self._subtree(queue.name)) > limit:
                return False
        return sum(self._needed(queue, held) for queue in self.world.queues if queue.parent is None) <= self.due.total

    def exceeds(self, queue: str, started: Collection[str]) -> bool:
        """Whether these gangs of the queue are more than its entitlement, which proportion lets nobody exceed."""
        limit = self.due.of[queue]
        own = sum(self.gangs[name].amount for name in started if self.gangs[name].queue == queue)
        return limit is not None and self.held[queue] + own > limit

    def _subtree(self, name: str) -> list[str]:
        children = [queue.name for queue in self.world.queues if queue.parent == name]
        return [name, *(each for child in children for each in self._subtree(child))]

    def _needed(self, queue: QueueData, held: Mapping[str, int]) -> int:
        """What a queue holds, or is guaranteed, with those below it."""
        inside = sum(self._needed(each, held) for each in self.world.queues if each.parent == queue.name)
        return max(self.due.guarantee(queue), held[queue.name] + inside)

    # --- what it is worth

    def score(self, started: frozenset[str]) -> Score:
        """Level by level what queues claim; the shares of all; level by level what starts. Where nothing can be
        reclaimed all that for one priority of queues after the other."""
        every = {gang.level[1] for gang in self.gangs.values()}
        rounds = [every] if self.reclaims else [{priority} for priority in sorted(every, reverse=True)]
        covers, found = self.claims_with(started), list[object]()
        for queues in rounds:
            names = [name for name, gang in self.gangs.items() if gang.level[1] in queues]
            levels = sorted({self.gangs[name].level for name in names}, reverse=True)
            values = {chosen: self._levels(chosen, levels, shares=True) for chosen in covers}
            best = max(values.values())
            covers = [chosen for chosen in covers if values[chosen] == best]
            found.append(best)
            if not started.issuperset(names):
                for priority in sorted(queues, reverse=True):
                    counted = {name for name, gang in self.gangs.items() if gang.level[1] >= priority}
                    mine = {name for name in counted if self.gangs[name].level[1] == priority}
                    found.append((0, *self._shares(started & counted, mine)))
            else:
                found += [(1,) for _ in queues]
            found.append(self._levels(started, levels, shares=False))
        return tuple(found)

    def _levels(self, counted: frozenset[str], levels: Sequence[tuple[int, int]], shares: bool) -> Score:
        found: list[object] = []
        for level in levels:
            here = {name for name, gang in self.gangs.items() if gang.level == level}
            if shares:
                above = {name for name, gang in self.gangs.items() if gang.level >= level}
                found.append((1,) if counted >= here else (0, *self._shares(counted & above, here)))
            found += [sum(self.gangs[name].amount for name in counted & here), len(counted & here)]
        return tuple(found)

    def _shares(self, started: Iterable[str], competing: Iterable[str]) -> list[tuple[Fraction, ...]]:
        """Among the children of each queue the sorted shares of those that have competing gangs, inside or below."""
        held = Counter(self.held)
        for name in started:
            held[self.gangs[name].queue] += self.gangs[name].amount
        asking = {self.gangs[name].queue for name in competing}
        found = []
        for siblings in self._families():
            shares = [
                self._share(queue, sum(held[each] for each in self.due.below(queue.name)))
                for queue in siblings
                if asking & set(self.due.below(queue.name))
            ]
            found.append(tuple(sorted(shares)) if len(shares) > 1 else ())
        return found

    def _families(self) -> list[list[QueueData]]:
        """Queues that are compared with one another: all, or with a hierarchy the children of each queue, from the
        root."""
        if not self.world.hierarchical:
            return [list(self.world.queues)]
        order = sorted((len(self.due.path(queue.name)), at, queue.name) for at, queue in enumerate(self.world.queues))
        parents = [None, *(name for _, _, name in order)]
        return [[queue for queue in self.world.queues if queue.parent == parent] for parent in parents]

    def _share(self, queue: QueueData, held: int) -> Fraction:
        return self.due.rules.measure(queue.name).share({"gpu": held})


# ---- jobs and places


def least_pods(job: JobData) -> dict[str, int]:
    """Task -> pods with which it starts: its minima, which add up to its own; with a hard topology all of them, since
    Volcano asks a hypernode for room for all."""
    return {
        task.name: task.replicas if task.minimum is None or job.tier is not None else task.minimum for task in job.tasks
    }


def least_amount(job: JobData) -> int:
    """What it holds when it starts."""
    return sum(pods * job.task(task).request["gpu"] for task, pods in least_pods(job).items())


def has_minima(job: JobData, running: Mapping[Where, int]) -> bool:
    pods = Counter[str]()
    for (name, task, _), number in running.items():
        pods[task] += number if name == job.name else 0
    return all(pods[task] >= least for task, least in least_pods(job).items())


def fits(world: World, running: Mapping[Where, int], jobs: Sequence[str]) -> bool:
    """Whether these jobs find room for their minima next to what runs, by trying every node for every pod."""
    free = [node["gpu"] for node in world.nodes]
    for (name, task, node), number in running.items():
        free[int(node[1:])] -= number * world.job(name).task(task).request["gpu"]
    return _place_jobs(world, free, list(jobs))


def _place_jobs(world: World, free: list[int], jobs: list[str]) -> bool:
    if not jobs:
        return True
    job = world.job(jobs[0])
    sizes = [job.task(task).request["gpu"] for task, pods in least_pods(job).items() for _ in range(pods)]
    everywhere = range(len(free))
    size = world.supernode_size
    domains: list[Sequence[int]] = [everywhere]
    if job.tier == 1 and size:
        domains = [everywhere[at : at + size] for at in range(0, len(free), size)]
    return any(_place_pods(world, free, sorted(sizes, reverse=True), domain, jobs[1:]) for domain in domains)


def _place_pods(world: World, free: list[int], sizes: list[int], domain: Sequence[int], rest: list[str]) -> bool:
    if not sizes:
        return _place_jobs(world, free, rest)
    tried = set()
    for node in domain:
        if free[node] < sizes[0] or (free[node], node // max(1, world.supernode_size)) in tried:
            continue
        tried.add((free[node], node // max(1, world.supernode_size)))
        left = [amount - sizes[0] if at == node else amount for at, amount in enumerate(free)]
        if _place_pods(world, left, sizes[1:], domain, rest):
            return True
    return False
