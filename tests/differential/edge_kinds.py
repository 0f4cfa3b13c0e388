"""Kinds of cells (`cells`), each with jobs near the edge of what fits: one for each kind of device or rule."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.builders.declared import Object
from tests.differential.cells import Amounts, Cell, container, least_pods, task

GPU = "nvidia.com/gpu"
JOBS = 3
"""Of each cell."""


def near(rng: random.Random, most: int) -> int:
    """A number of pods about the most that fit, one at least."""
    return max(1, most + rng.choice((-1, 0, 1, 1)))


def _sizes(rng: random.Random, choices: Sequence[int]) -> list[int]:
    return [rng.choice(choices) for _ in range(rng.choice((1, 2, 2, 3)))]


# ---- amounts


def whole_devices(cell: Cell, rng: random.Random) -> None:
    """Whole GPUs, slices of MIG or Ascend's NPUs: containers, init containers and sidecars that ask for some."""
    name = rng.choice((GPU, GPU, "nvidia.com/mig-1g.10gb", "huawei.com/Ascend910", "amd.com/gpu"))
    sizes = _sizes(rng, (1, 2, 4, 8))
    for size in sizes:
        cell.node({name: size})
    cell.queue()
    for _ in range(JOBS):
        per_pod = rng.choice((1, 2, 3, 4))
        first = rng.randint(1, per_pod)
        containers = [{name: first}] + ([{name: per_pod - first}] if per_pod > first else [{"cpu": 1}])
        more: Object = {}
        if rng.random() < 1 / 3:
            initial = container("i", {name: rng.choice((1, per_pod, per_pod + 1))})
            if rng.random() < 1 / 2:
                initial["restartPolicy"] = "Always"
                per_pod += int(initial["resources"]["limits"][name])
            more["initContainers"] = [initial]
        replicas = near(rng, sum(size // per_pod for size in sizes))
        cell.job(task(replicas, *containers, **more), task(1, {"cpu": "100m"}))


def amounts(cell: Cell, rng: random.Random) -> None:
    """CPUs and memory in odd amounts, few pods a node, huge pages and local storage."""
    sizes = [
        {
            "cpu": rng.choice(("3920m", "4", "7500m")),
            "memory": rng.choice(("7935Mi", "8Gi", "16000000000")),
            "pods": rng.choice((2, 3, 110)),
            "hugepages-2Mi": rng.choice(("0", "512Mi", "1Gi")),
            "ephemeral-storage": rng.choice(("10Gi", "100Gi")),
        }
        for _ in range(rng.choice((1, 2)))
    ]
    for size in sizes:
        cell.node(size)
    cell.queue()
    for _ in range(JOBS):
        request = rng.choice(
            (
                {"cpu": rng.choice(("3920m", "3921m", "1960m", "1", "4"))},
                {"cpu": "100m", "memory": rng.choice(("7935Mi", "4Gi", "8Gi", "15625000Ki"))},
                {"cpu": "10m"},
                {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": rng.choice(("256Mi", "512Mi", "514Mi"))},
                {"cpu": "1", "ephemeral-storage": rng.choice(("5Gi", "10Gi", "11Gi"))},
            )
        )
        cell.job(task(rng.choice((1, 2, 3, 4)), request))


def minima(cell: Cell, rng: random.Random) -> None:
    """Elastic jobs: minima of tasks and of the job, several roles."""
    sizes = _sizes(rng, (2, 4))
    for size in sizes:
        cell.node({GPU: size})
    cell.queue()
    for _ in range(JOBS):
        room, tasks = sum(sizes), []
        for _ in range(rng.choice((1, 2, 2))):
            per_pod, replicas = rng.choice((1, 1, 2)), rng.choice((1, 2, 3, 4))
            least = rng.choice((None, rng.randint(0, replicas), near(rng, room // per_pod)))
            tasks.append(task(replicas, {GPU: per_pod}, minimum=None if least is None else min(least, replicas)))
        pods = sum(each["replicas"] for each in tasks)
        least = least_pods(tasks)
        cell.job(*tasks, minimum=rng.choice((None, max(1, least), rng.randint(1, pods), pods)))


def dependent_roles(cell: Cell, rng: random.Random) -> None:
    """Tasks whose pods are made only when those of others run."""
    size = rng.choice((2, 4))
    cell.node({GPU: size})
    cell.queue()
    for _ in range(JOBS):
        first, then = (rng.choice((1, 2, near(rng, size))) for _ in range(2))
        status = rng.choice(("any", "all"))
        after = {"dependsOn": {"name": ["t0"], "iteration": status}}
        least = rng.choice((first, first + then, 1))
        cell.job(task(first, {GPU: 1}), task(then, {GPU: 1}) | after, minimum=least)


# ---- places


def labels_and_taints(cell: Cell, rng: random.Random) -> None:
    """Selectors, affinity to nodes with all operators, taints and tolerations, what every kubelet labels."""
    for _ in range(rng.choice((2, 3))):
        effects = rng.choice(((), (), ("NoSchedule",), ("NoExecute",), ("PreferNoSchedule",)))
        taints = [{"key": "dedicated", "value": rng.choice("ab"), "effect": effect} for effect in effects]
        cell.node({GPU: 2}, {"model": rng.choice("ab"), "rack": rng.choice("123")}, taints)
    cell.queue()
    for _ in range(JOBS):
        spec: Object = {}
        if rng.random() < 1 / 2:
            choices = ({"model": "a"}, {"model": "c"}, {"kubernetes.io/os": "linux"}, {"kubernetes.io/arch": "arm64"})
            spec["nodeSelector"] = dict(rng.choice((*choices, {"kubernetes.io/hostname": f"{cell.name}-n0"})))
        if rng.random() < 1 / 2:
            terms = [{"matchExpressions": [_expression(rng)]} for _ in range(rng.choice((1, 2)))]
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            spec["affinity"] = {"nodeAffinity": required}
        if rng.random() < 1 / 2:
            toleration = rng.choice(
                (
                    {"operator": "Exists"},
                    {"key": "dedicated", "operator": "Exists"},
                    {"key": "dedicated", "value": "a"},
                    {"key": "dedicated", "value": "a", "effect": "NoSchedule"},
                )
            )
            spec["tolerations"] = [toleration]
        cell.job(task(rng.choice((1, 1, 2, 3)), {GPU: rng.choice((1, 2))}, **spec))


def _expression(rng: random.Random) -> Object:
    return rng.choice(
        (
            {"key": "model", "operator": "In", "values": ["a"]},
            {"key": "model", "operator": "NotIn", "values": ["a"]},
            {"key": "absent", "operator": "NotIn", "values": ["a"]},
            {"key": "model", "operator": "Exists"},
            {"key": "absent", "operator": "Exists"},
            {"key": "absent", "operator": "DoesNotExist"},
            {"key": "rack", "operator": "Gt", "values": ["1"]},
            {"key": "rack", "operator": "Lt", "values": ["2"]},
        )
    )


def rules_between_pods(cell: Cell, rng: random.Random) -> None:
    """Affinity, anti-affinity and spread of a job's own pods."""
    sizes = _sizes(rng, (1, 2, 3))
    for size in sizes:
        cell.node({GPU: size}, {"zone": rng.choice("ab")})
    cell.queue()
    for at in range(JOBS):
        key = rng.choice(("kubernetes.io/hostname", "zone", "zone"))
        labels = {"app": f"{cell.name}-{at}"}
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
        kind = rng.choice(("podAffinity", "podAntiAffinity", "spread"))
        spec: Object = {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        if kind == "spread":
            skew = {"maxSkew": rng.choice((1, 2)), "whenUnsatisfiable": "DoNotSchedule"}
            spec = {"topologySpreadConstraints": [{**term, **skew}]}
        replicas = rng.choice((len(sizes), len(sizes) + 1, near(rng, sum(sizes))))
        made = task(replicas, {GPU: 1}, **spec)
        made["template"]["metadata"] = {"labels": labels}
        cell.job(made)


def topology(cell: Cell, rng: random.Random) -> None:
    """Hard tiers: supernodes of a few nodes below a common hypernode, some nodes below none; whole jobs and parts."""
    size = rng.choice((1, 2))
    names = [cell.node({GPU: size}) for _ in range(rng.choice((2, 3, 4)))]
    cut = rng.randint(1, len(names) - 1)
    supernodes = [cell.hypernode("s0", 1, names[:cut]), cell.hypernode("s1", 1, names[cut:])]
    if rng.random() < 2 / 3:
        cell.hypernode("top", 2, supernodes[: rng.choice((1, 2, 2))])
    cell.queue()
    for _ in range(JOBS):
        tier = rng.choice((1, 1, 2, 3))
        most = size * (max(cut, len(names) - cut) if tier == 1 else len(names))
        replicas = near(rng, most)
        hard = {"mode": "hard", "highestTierAllowed": tier}
        if rng.random() < 1 / 4:
            parts = rng.choice((2, 3))
            policy = {"totalPartitions": parts, "partitionSize": size, "networkTopology": hard}
            cell.job(task(parts * size, {GPU: 1}) | {"partitionPolicy": policy})
        else:
            least = rng.choice((None, None, rng.randint(1, replicas)))
            cell.job(task(replicas, {GPU: 1}, minimum=least), networkTopology=hard)


def numa(cell: Cell, rng: random.Random) -> None:
    """Nodes of NUMA cells, and pods of one or two containers with a topologyPolicy."""
    size, number = rng.choice((4, 8)), 2
    policy = rng.choice(("single-numa-node", "restricted", "best-effort"))
    for _ in range(rng.choice((1, 2))):
        name = cell.node({"cpu": size * number})
        cell.numatopologies.append(_numatopology(name, policy, size, number))
    cell.queue()
    for _ in range(JOBS):
        cpus = [rng.choice((1, 2, 3, size, size + 1)) for _ in range(rng.choice((1, 1, 2)))]
        asked = rng.choice((policy, policy, policy, "single-numa-node"))
        requests: list[Amounts] = [{"cpu": each, "memory": "1Gi"} for each in cpus]
        pods = task(rng.choice((1, 1, 2, 3)), *requests)
        cell.job(pods | {"topologyPolicy": asked})


def _numatopology(node: str, policy: str, size: int, number: int) -> Object:
    cpus = {str(cpu): {"numa": cpu // size, "socket": cpu // size, "core": cpu} for cpu in range(size * number)}
    return {
        "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
        "kind": "Numatopology",
        "metadata": {"name": node},
        "spec": {
            "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": policy},
            "numares": {"cpu": {"allocatable": f"0-{size * number - 1}", "capacity": size * number}},
            "cpuDetail": cpus,
        },
    }


# ---- queues


def queue_limits(cell: Cell, rng: random.Random) -> None:
    """What a queue may hold, deserves and is guaranteed, of a resource of the cell's own."""
    device = f"example.com/{cell.name}"
    total = rng.choice((4, 6, 8))
    cell.node({device: total // 2})
    cell.node({device: total - total // 2})
    limit = rng.randint(1, total)
    guarantee = rng.choice((0, 0, rng.randint(1, total)))
    spec: Object = rng.choice(({}, {"capability": {device: str(limit)}}, {"deserved": {device: str(limit)}}))
    cell.queue("", **spec)
    if guarantee:
        held = {device: str(guarantee)}
        cell.queue("g", guarantee={"resource": held}, deserved=held)
    for _ in range(JOBS):
        room = rng.choice((limit, total, max(1, total - guarantee)))
        cell.job(task(near(rng, room), {device: 1}))


# ---- shared devices


def virtual_gpus(cell: Cell, rng: random.Random) -> None:
    """Cards of one size or two in parts: memory, cores, several of them, several containers, models."""
    memories = [rng.choice(cell.cards.sizes) for _ in range(rng.choice((1, 2)))]
    devices, shares = rng.choice((1, 2)), rng.choice((2, 10))
    for memory in memories:
        sick = rng.random() < 1 / 6
        model = rng.choice(("NVIDIA-Tesla V100", "NVIDIA-A100"))
        records = [f"{cell.name}-{len(cell.nodes)}-{d},{shares},{memory},{model},{d > 0 or not sick},hami-core"
                   for d in range(devices)]  # fmt: skip
        has = {
            "volcano.sh/vgpu-number": devices * shares,
            "volcano.sh/vgpu-memory": devices * memory,
            "volcano.sh/vgpu-cores": devices * 100,
        }
        away = {"volcano.sh/vgpu-number": shares * sick}
        cell.node(has, annotations={"volcano.sh/node-vgpu-register": ":".join(records) + ":"}, away=away)
    cell.queue()
    for _ in range(JOBS):
        requests = [_virtual_gpu(rng, memories, cell.cards.cores) for _ in range(rng.choice((1, 1, 2)))]
        notes = {"nvidia.com/use-gputype": rng.choice(("A100", "V100,T4"))} if rng.random() < 1 / 6 else None
        cell.job(task(rng.choice((1, 1, 2, 3, 4)), *requests, annotations=notes))


def _virtual_gpu(rng: random.Random, memories: Sequence[int], cores: float) -> Amounts:
    memory = rng.choice((*memories, max(memories) // 2, max(memories) // 2 + 1, max(memories) + 1, 3000))
    request: dict[str, int | str] = {"cpu": "100m", "volcano.sh/vgpu-number": rng.choice((1, 1, 1, 2, 3))}
    if rng.random() < 2 / 3:
        request["volcano.sh/vgpu-memory"] = memory
        if rng.random() < 1 / 5:
            del request["volcano.sh/vgpu-number"]
    if rng.random() < cores:
        request["volcano.sh/vgpu-cores"] = rng.choice((25, 50, 51, 100))
    return request


def shared_memory(cell: Cell, rng: random.Random) -> None:
    """Cards whose memory several pods share, and whole ones by their number."""
    cards, memory = rng.choice((1, 2, 3)), rng.choice((10, 16))
    for _ in range(rng.choice((1, 2))):
        has = {"volcano.sh/gpu-memory": cards * memory, "volcano.sh/gpu-number": cards}
        if rng.random() < 1 / 6:
            away = {"volcano.sh/gpu-memory": memory, "volcano.sh/gpu-number": 1}
            cell.node(has, annotations={"volcano.sh/gpu-unhealthy-ids": "0"}, away=away)
        else:
            cell.node(has)
    cell.queue()
    for _ in range(JOBS):
        if rng.random() < 2 / 3:
            part = rng.choice((memory, memory // 2, memory // 2 + 1, memory + 1, 3))
            requests: list[Amounts] = [{"cpu": "100m", "volcano.sh/gpu-memory": part}]
            if rng.random() < 1 / 4:
                requests.append({"cpu": "100m", "volcano.sh/gpu-memory": rng.choice((1, memory // 2))})
        else:
            requests = [{"cpu": "100m", "volcano.sh/gpu-number": rng.choice((1, cards, cards + 1))}]
        cell.job(task(rng.choice((1, 1, 2, 3, 4)), *requests))


def ascend_parts(cell: Cell, rng: random.Random) -> None:
    """Ascend's NPUs in parts, as HAMi shares them: the device plugin offers a number, and no memory."""
    devices = rng.choice((1, 2))
    records = [
        {"id": f"{cell.name}-{d}", "count": 7, "devmem": 21527, "devcore": 8, "type": "Ascend310P", "health": True}
        for d in range(devices)
    ]
    text = str(records).replace("'", '"').replace("True", "true")
    offers: dict[str, int | str] = {"huawei.com/Ascend310P": devices * 7}
    if rng.random() < 1 / 2:
        offers["huawei.com/Ascend310P-memory"] = devices * 21527
    cell.node(offers, annotations={"hami.io/node-register-Ascend310P": text})
    cell.queue()
    for _ in range(JOBS):
        request: dict[str, int | str] = {"cpu": "100m", "huawei.com/Ascend310P": rng.choice((1, 1, 2))}
        if rng.random() < 2 / 3:
            request["huawei.com/Ascend310P-memory"] = rng.choice((3072, 6144, 12288, 21527))
        cell.job(task(rng.choice((1, 2, 3, 8)), request))
