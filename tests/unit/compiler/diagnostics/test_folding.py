"""One cause, one message: what waits for an object with errors is counted at its error."""

from __future__ import annotations

from compiler.diagnostics.diagnostic import fold_diagnostics
from compiler.reading import read_specs
from compiler.repository.tree import Repository

QUEUE = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: NAME}\n"
POD = "{spec: {containers: [{name: main, image: a, resources: {requests: {cpu: 1}}}]}}"
JOB = (
    "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: NAME}\n"
    f"spec: {{queue: QUEUE, tasks: [{{name: w, replicas: 1, template: {POD}}}]}}\n"
)
POOL = "apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\nmetadata: {name: p}\nspec: {count: 1, capacity: {cpu: 8}}\n"


def said(queues: str, jobs: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    files = {"cluster-specs/c/queues.yaml": queues.encode(), "cluster-specs/c/pool.yaml": POOL.encode()}
    for name, queue in jobs:
        files[f"jobs/{name}.yaml"] = JOB.replace("NAME", name).replace("QUEUE", queue).encode()
    return [(d.code, d.message, d.help) for d in fold_diagnostics(read_specs(Repository(files)).diagnostics)]


def test_jobs_behind_a_queue_with_errors_are_counted_there_through_a_child_queue_too() -> None:
    queues = QUEUE.replace("NAME", "top") + "spec: {weight: -1}\n---\n" + QUEUE.replace("NAME", "child")
    queues += "spec: {parent: top}\n"
    ((code, _, help),) = said(queues, [("a", "child"), ("b", "child"), ("c", "child")])
    assert code == "GP206"
    assert help.endswith("; 3 jobs wait for this")


def test_equal_words_about_several_jobs_are_said_once_with_their_number() -> None:
    found = said(QUEUE.replace("NAME", "q") + "spec: {}\n", [(name, "nobody") for name in "abcde"])
    assert [(code, message) for code, message, _ in found] == [
        ("GP302", "there is no queue 'nobody' (and 4 more: Job b, Job c, Job d, ...)")
    ]


def test_different_words_stay_apart() -> None:
    found = said(QUEUE.replace("NAME", "q") + "spec: {}\n", [("a", "nobody"), ("b", "nowhere")])
    assert [code for code, *_ in found] == ["GP302", "GP302"]


def test_privileged_containers_are_one_info_until_the_cluster_says_whether_it_takes_them() -> None:
    privileged = JOB.replace("image: a", "image: a, securityContext: {privileged: true}").replace("QUEUE", "default")
    files = {"cluster-specs/c/pool.yaml": POOL.encode()}
    for number in range(52):
        files[f"jobs/{number}.yaml"] = privileged.replace("NAME", f"j{number}").encode()
    (found,) = read_specs(Repository(files)).diagnostics
    assert (found.code, found.severity, found.message.startswith("52 objects")) == ("GP378", "info", True)
    cluster = (
        "apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec: {allowPrivileged: ALLOWED}\n"
    )
    files["cluster-specs/c/cluster.yaml"] = cluster.replace("ALLOWED", "true").encode()
    assert not read_specs(Repository(files)).diagnostics
    files["cluster-specs/c/cluster.yaml"] = cluster.replace("ALLOWED", "false").encode()
    errors = read_specs(Repository(files)).diagnostics
    assert [(each.code, each.severity) for each in errors] == [("GP378", "error")] * 52
