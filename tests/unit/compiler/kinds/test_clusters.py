"""Queues, nodes, pools, hypernodes and scheduler configurations as specs; and what stays when something is wrong."""

from __future__ import annotations

from compiler.fields.texts import natural_sort_key
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import PluginSpec, Specs
from compiler.specs.pod_spec import Taint
from tests.builders.beside import beside

POD = "{spec: {containers: [{name: main, image: a, resources: {requests: {cpu: 1}}}]}}"


def read(**files: str) -> Specs:
    return read_specs(
        Repository(
            {
                f"{'jobs' if name.startswith('job') else 'cluster-specs/c'}/{name}.yaml": text.encode()
                for name, text in files.items()
            }
        )
    )


def pool(spec: str) -> str:
    return f"apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: gpu}}\nspec: {spec}\n"


def job(name: str, queue: str = "default", rest: str = "") -> str:
    return (
        f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: {name}}}\n"
        f"spec: {{queue: {queue}, {rest}tasks: [{{replicas: 1, template: {POD}}}]}}\n"
    )


def test_ten_lines_are_a_thousand_nodes_in_three_tiers() -> None:
    specs = read(
        pool=pool(
            "{count: 1000, capacity: {cpu: 96, memory: 1Ti, nvidia.com/gpu: "
            "8}, labels: {gen: h}, taints: [{key: gpu, effect: NoSchedule}], "
            "topology: [{name: supernode, size: 16}, {name: spine, size: 8}, {name: core}]}"
        )
    )
    first = specs.nodes[0]
    assert (len(specs.nodes), first.name, specs.nodes[-1].name) == (1000, "gpu-000", "gpu-999")
    platform = {
        f"{of}kubernetes.io/{key}": value for of in ("", "beta.") for key, value in (("os", "linux"), ("arch", "amd64"))
    }
    assert first.labels == {"gen": "h", "kubernetes.io/hostname": "gpu-000", **platform}
    assert first.taints == (Taint("gpu", "", "NoSchedule"),)
    assert first.allocatable == {"cpu": 96000, "memory": 1 << 40, "nvidia.com/gpu": 8, "pods": 110}
    tiers = [[h for h in specs.hypernodes if h.tier == tier] for tier in (1, 2, 3)]
    assert [len(tier) for tier in tiers] == [63, 8, 1]
    assert (tiers[0][0].name, tiers[0][0].tier_name, len(tiers[0][0].nodes), len(tiers[0][-1].nodes)) == (
        "gpu-supernode-00",
        "supernode",
        16,
        8,
    )
    assert tiers[1][0].hypernodes == tuple(f"gpu-supernode-{n:02}" for n in range(8))
    assert tiers[2][0].name == "gpu-core-0"
    assert sorted(node for h in tiers[0] for node in h.nodes) == sorted(node.name for node in specs.nodes)


def test_a_pool_may_name_its_nodes_by_ranges() -> None:
    specs = read(
        pool=pool('{names: ["r1-n[08-11].lab", login], capacity: {cpu: 1}, topology: [{name: rack, size: 2}]}')
    )
    assert [node.name for node in specs.nodes] == ["login", "r1-n08.lab", "r1-n09.lab", "r1-n10.lab", "r1-n11.lab"]
    assert [h.nodes for h in specs.hypernodes] == [
        ("r1-n08.lab", "r1-n09.lab"),
        ("r1-n10.lab", "r1-n11.lab"),
        ("login",),
    ]


def test_nodes_come_in_the_order_of_their_numbers() -> None:
    assert sorted(["n10", "n9", "n", "m2", "10", "9a"], key=natural_sort_key) == ["m2", "n", "n9", "n10", "9a", "10"]


def test_a_node_offers_what_is_allocatable_unless_cordoned_or_not_ready() -> None:
    node = (
        "{{apiVersion: v1, kind: Node, metadata: {{name: {0}, labels: "
        "{{kubernetes.io/hostname: {0}}}}}, spec: {1}, status: {2}}}\n"
    )
    text = "---\n".join(
        [
            node.format("a", "{}", "{capacity: {cpu: 8}, allocatable: {cpu: 7900m, pods: '110'}}"),
            node.format(
                "b",
                "{unschedulable: true, taints: [{key: k, effect: NoExecute, timeAdded: '2026-01-01T00:00:00Z'}]}",
                "{capacity: {cpu: 8}}",
            ),
            node.format("c", "{}", "{capacity: {cpu: 8}, conditions: [{type: Ready, status: 'Unknown'}]}"),
        ]
    )
    found = {node.name: node for node in read(nodes=text).nodes}
    assert found["a"].allocatable == {"cpu": 7900, "pods": 110}
    assert [found[name].unschedulable for name in "abc"] == [False, True, True]
    assert found["b"].taints == (Taint("k", "", "NoExecute"),)


def test_a_queue_has_volcano_s_defaults() -> None:
    text = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {}}}\nspec: {}\n"
    specs = read(
        queues="---\n".join(
            [
                text.format("a", "{weight: 0, parent: root}"),
                text.format("b", "{reclaimable: false, deserved: {cpu: 1}, guarantee: {resource: {cpu: 1}}}"),
            ]
        )
    )
    a, b = specs.queues
    assert (a.weight, a.parent, a.reclaimable, a.capability) == (1, None, True, {})
    assert (b.reclaimable, b.guarantee) == (False, {"cpu": 1000})


CONF = beside(__file__)["conf"]


def test_a_raw_and_a_typed_configuration_say_the_same() -> None:
    head = (
        "apiVersion: gangplan.dev/v1alpha1\nkind: SchedulerConfiguration\nmetadata: {name: sched, namespace: volcano}\n"
    )
    typed = head + "spec:\n  actions: [enqueue, allocate]\n"
    indented = [line[2:] for line in CONF.splitlines()[6:]]
    raw, ours = read(c=CONF).scheduler, read(c=typed + "\n".join(indented) + "\n").scheduler
    assert raw is not None
    assert ours is not None
    for found in (raw, ours):
        assert (found.name, found.namespace, found.actions) == ("sched", "volcano", ("enqueue", "allocate"))
        assert found.tiers == (
            (PluginSpec("gang", {}, {"enablePreemptable": False}), PluginSpec("binpack", {"binpack.weight": 5}, {})),
        )
        assert found.configurations == {"allocate": {"predicateErrorCacheEnable": False}}
    assert raw.raw_text is not None
    assert raw.raw_text.startswith("actions:")
    place = raw.document.position(*raw.base_path, "tiers", 0, "plugins", 0, "enablePreemptable")
    assert (place.line, place.column) == (10, 9)


def test_a_bad_job_never_takes_the_good_ones_down() -> None:
    specs = read(
        pool=pool("{count: 2, capacity: {cpu: 1}}"),
        jobs=job("good") + "---\n" + job("bad", rest="minAvailable: x, ") + "---\n" + job("fine"),
    )
    assert [gang.document.name for gang in specs.gangs] == ["fine", "good"]
    assert [document.name for document in specs.documents if document.kind == "Job"] == ["bad", "fine", "good"]
    assert [d.code for d in specs.diagnostics] == ["GP204"]


def test_what_hangs_on_an_object_with_errors_falls_with_it_however_deep() -> None:
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {}}}\nspec: {}\n"
    chain = "---\n".join(
        [
            queue.format("c", "{parent: b}"),
            queue.format("b", "{parent: a}"),
            queue.format("a", "{weight: x}"),
            queue.format("z", "{}"),
        ]
    )
    specs = read(
        pool=pool("{count: 2, capacity: {cpu: 1}}"), queues=chain, jobs=job("lost", "c") + "---\n" + job("kept", "z")
    )
    assert [queue.name for queue in specs.queues] == ["z"]
    assert [gang.document.name for gang in specs.gangs] == ["kept"]
    assert sorted(d.code for d in specs.diagnostics) == ["GP204", "GP354", "GP354", "GP354"]


def test_the_order_of_files_and_documents_does_not_matter_to_the_specs() -> None:
    first = read(pool=pool("{count: 3, capacity: {cpu: 1}}"), job1=job("b"), job2=job("a"))
    second = read(job2=job("a"), job1=job("b"), pool=pool("{count: 3, capacity: {cpu: 1}}"))
    assert first == second


def test_circles_of_a_thousand_are_found_without_recursion_and_told_shortly() -> None:
    size = 1100  # above the limit of recursion
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: q{}}}\nspec: {{parent: q{}}}\n"
    domain = (
        "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\n"
        "metadata: {{name: h{}}}\nspec: {{tier: 1, members: [{}]}}\n"
    )
    member = "{{type: HyperNode, selector: {{exactMatch: {{name: h{}}}}}}}"
    task = (
        "{{name: t{}, replicas: 1, dependsOn: {{name: [t{}]}}, template: "
        + POD.replace("{", "{{").replace("}", "}}")
        + "}}"
    )
    tasks = ", ".join(task.format(n, (n + 1) % size) for n in range(size))
    specs = read(
        pool=pool("{count: 2, capacity: {cpu: 1}}"),
        queues="---\n".join(queue.format(n, (n + 1) % size) for n in range(size)),
        domains="---\n".join(domain.format(n, member.format((n + 1) % size)) for n in range(size)),
        jobs=f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: j}}\nspec: {{tasks: [{tasks}]}}\n",
    )
    codes = [d.code for d in specs.diagnostics]
    assert {"GP304", "GP329", "GP346", "GP348"} <= set(codes)
    assert (codes.count("GP304"), codes.count("GP329"), codes.count("GP346")) == (size, 1, 1)
    assert max(len(d.message) for d in specs.diagnostics) < 200
