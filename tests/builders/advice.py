"""Reasons and repairs of waiting jobs, as data: a small repository, and the sentences that are reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.cluster_state.cluster_state import ClusterState
from compiler.emit.repaired_files import edited_by_repairs
from compiler.outcome import JobDecision, Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from tests.builders import declared
from tests.builders.cluster_objects import volcano_job_pod
from tests.builders.declared import GPU, Object

_EXPECTED = ("says", "says_no", "facts", "actions", "never", "reasons", "repaired")
"""Of the jobs that are named. says: code -> sentence. facts: code -> some facts of its sentence. says_no, reasons:
codes, of those that are not reported and of all reasons. repaired: the code of the repair whose patch starts the job
`asks`."""


def assert_advice(cases: Mapping[str, Any] | list[Mapping[str, Any]]) -> None:
    """cases: one, or several that belong together."""
    for case in cases if isinstance(cases, list) else [cases]:
        _assert_case(case)


def _assert_case(case: Mapping[str, Any]) -> None:
    expected = {key: case[key] for key in _EXPECTED if key in case}
    assert expected
    tree, state = repository_of(**{key: said for key, said in case.items() if key not in _EXPECTED})
    made = compile_repository(tree, state=state)
    assert (made.ok, made.error_count) == (True, 0), made.diagnostics
    decisions = {decision.gang.document.name: decision for decision in made.decisions}
    said = {name: {each.code: each for each in (*d.reasons, *d.repairs)} for name, d in decisions.items()}
    for name, codes in expected.pop("says_no", {}).items():
        assert not said[name].keys() & {*codes}
    found: dict[str, Any] = {
        "says": {n: {code: said[n][code].message for code in of} for n, of in expected.get("says", {}).items()},
        "facts": {
            name: {code: {key: _plain(said[name][code].facts[key]) for key in keys} for code, keys in of.items()}
            for name, of in expected.get("facts", {}).items()
        },
        "actions": {name: decisions[name].action for name in expected.get("actions", ())},
        "never": {name: decisions[name].never for name in expected.get("never", ())},
        "reasons": {name: [each.code for each in decisions[name].reasons] for name in expected.get("reasons", ())},
        "repaired": expected.get("repaired"),
    }
    assert {key: found[key] for key in expected} == expected
    if "repaired" in expected:
        assert _repaired(made, decisions["asks"], tree, expected["repaired"]).action == "start"


def _plain(fact: Any) -> Any:
    return list(fact) if isinstance(fact, tuple) else fact


def _repaired(made: Outcome, asks: JobDecision, tree: Repository, code: str) -> JobDecision:
    """What is decided on the job once the patch of its repair is applied."""
    patched = {message.code: files for message, files in edited_by_repairs(made, asks, tree)}[code]
    assert patched is not None
    again = compile_repository(tree.with_files(patched))
    return next(each for each in again.decisions if each.gang.document.name == "asks")


def repository_of(
    *,
    pools: Mapping[str, Mapping[str, Any]],
    jobs: Mapping[str, Mapping[str, Any]],
    queues: Mapping[str, Mapping[str, Any]] | None = None,
    classes: Mapping[str, int] | None = None,
    scheduler: list[str | Object] | None = None,
    supernodes: list[str] | None = None,
    running: Mapping[str, list[str]] | None = None,
    also: list[Object] | None = None,
) -> tuple[Repository, ClusterState | None]:
    """pools, queues, jobs: name -> arguments. classes: priorities. scheduler: its plugins. supernodes: pools of two
    nodes, each a supernode under one hypernode. running: job -> the node of each pod."""
    objects: list[Object] = [declared.cluster()]
    objects += [declared.scheduler(tuple(scheduler))] if scheduler else []
    objects += [_pool(name, **said) for name, said in pools.items()]
    objects += [declared.hypernode(name, f"{name}-0", f"{name}-1") for name in supernodes or ()]
    objects += [declared.hypernode("top", *supernodes, tier=2)] if supernodes else []
    objects += [declared.priority_class(name, value) for name, value in (classes or {}).items()]
    objects += [declared.queue(name, **said) for name, said in (queues or {}).items()]
    objects += [_job(name, **said) for name, said in jobs.items()] + (also or [])
    pods = [
        volcano_job_pod(f"{name}-{node}", name, "worker", node=node, requests={GPU: "8"})
        for name, nodes in (running or {}).items()
        for node in nodes
    ]
    tree = Repository({"cluster-specs/c/all.yaml": declared.yaml_of(*objects).encode()})
    return tree, ClusterState.from_objects(pods) if pods else None


def _pool(name: str, count: int, gpus: int = 8, **spec: Any) -> Object:
    """Nodes with label gpu, their pool's name."""
    labels = {"gpu": name, **spec.pop("labels", {})}
    return declared.node_pool(count, name=name, **{"capacity": {"cpu": 64, GPU: gpus}, "labels": labels, **spec})


def _job(
    name: str,
    pods: int,
    task: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Object:
    """A Volcano job of role worker, whose pods ask for 8 GPUs unless their limits are given. task, pod: further fields.
    spec: of the job."""
    template = declared.pod_spec({GPU: 8} if limits is None else limits, restartPolicy="Never", **(pod or {}))
    role = {"name": "worker", **(task or {})}
    return declared.job(name, pods, template, task=role, schedulerName="volcano", **spec)
