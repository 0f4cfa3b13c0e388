"""Each job of a repository with several clusters is in the plan of exactly one, or refused by all."""

from __future__ import annotations

from collections import Counter

import pytest

from compiler.pipeline import compile_repository
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from tests.builders.beside import beside

POOL = """\
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata: {name: gpu}
spec: {count: 2, capacity: {cpu: 8}}
"""
JOB: str = beside(__file__)["job"]


def cluster(name: str, spec: str = "") -> bytes:
    return f"apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n".encode()


def job(name: str, labels: str = "", annotations: str = "") -> bytes:
    return JOB.replace("NAME", name).replace("LABELS", labels).replace("ANNOTATIONS", annotations).encode()


def repository(east: str = "", west: str = "", **jobs: bytes) -> Repository:
    """jobs: path below jobs/ with "__" for "/" -> text."""
    clusters = {
        f"cluster-specs/{name}/{file}.yaml": text
        for name, spec in (("east", east), ("west", west))
        for file, text in (("cluster", cluster(f"{name}-1", spec)), ("nodes", POOL.encode()))
    }
    return Repository({**clusters, **{f"jobs/{name.replace('__', '/')}.yaml": text for name, text in jobs.items()}})


def plans(tree: Repository) -> dict[str, list[str]]:
    """Cluster -> the jobs of its plan."""
    return {
        name: sorted(decision.gang.document.name for decision in compile_repository(tree, name).decisions)
        for name in tree.cluster_folders()
    }


def codes(tree: Repository, name: str) -> list[str]:
    return [found.code for found in read_specs(tree, name).diagnostics]


def test_two_plans_share_no_job_and_miss_none() -> None:
    tree = repository(
        east="jobs: [jobs/shared/east-*.yaml], jobSelector: {matchLabels: {size: small}}",
        east__a=job("folder-east"),
        west_1__b=job("other"),
        west__c=job("folder-west"),
        shared__east_x=job("label-missing"),
        shared__named=job("named", annotations="gangplan.dev/cluster: east-1"),
    )
    files = dict(tree.files)
    files["jobs/west-1/d.yaml"] = job("by-name-of-the-object")
    files["jobs/shared/east-y.yaml"] = job("both", labels="size: small")
    tree = Repository(files)
    found = plans(tree)
    assert found == {
        "east": ["both", "folder-east", "named"],
        "west": ["by-name-of-the-object", "folder-west", "label-missing", "other"],
    }
    counts = Counter(name for names in found.values() for name in names)
    assert set(counts.values()) == {1}


@pytest.mark.parametrize(
    ("east", "west"),
    [("", ""), ("jobs: [jobs/]", "jobs: [jobs/a*]"), ("jobSelector: {}", "jobs: [jobs/]")],
    ids=["neither says anything", "paths overlap", "a selector and a path"],
)
def test_a_job_that_both_could_take_is_in_no_plan_until_one_is_named(east: str, west: str) -> None:
    tree = repository(east, west, a=job("a"))
    assert plans(tree) == {"east": [], "west": []}
    assert codes(tree, "east") == codes(tree, "west") == ["GP128"]
    tree = repository(east, west, a=job("a", annotations="gangplan.dev/cluster: west"))
    assert plans(tree) == {"east": [], "west": ["a"]}
    assert codes(tree, "east") == codes(tree, "west") == []


def test_a_job_that_no_cluster_takes_is_an_error_of_each() -> None:
    tree = repository("jobs: [jobs/b/]", "jobs: [jobs/c/]", a=job("a"))
    assert codes(tree, "east") == codes(tree, "west") == ["GP129"]
    tree = repository(a=job("a", annotations="gangplan.dev/cluster: eats"))
    (found,) = read_specs(tree, "west").diagnostics
    assert (found.code, found.help) == ("GP129", "did you mean 'east'?")


def test_a_cluster_that_cannot_be_read_takes_nothing_that_the_other_does_not_claim() -> None:
    tree = repository("jobs: 3", a=job("a"), east__b=job("b"))
    assert plans(tree)["west"] == ["a"]
    assert plans(tree)["east"] == ["b"]


def test_what_is_no_job_goes_with_the_jobs_of_its_file() -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-b, namespace: a}\n"
    shared = text.replace(b"of-b", b"of-all")
    tree = repository(shared__b=text + b"---\n" + job("b", annotations="gangplan.dev/cluster: west"), all=shared)
    for name, expected in (("east", ["of-all"]), ("west", ["of-all", "of-b"])):
        assert [d.name for d in read_specs(tree, name).documents if d.kind == "ConfigMap"] == expected


def test_problems_of_another_cluster_s_text_are_not_told_here() -> None:
    tree = repository(east__a=b"kind: [\n" + job("a"), west__b=job("b").replace(b"replicas: 1", b"replicas: one"))
    assert "GP204" not in codes(tree, "east")
    assert "GP204" in codes(tree, "west")
