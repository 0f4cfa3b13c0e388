"""Which NamespaceQueues become ready: the controller's table of conditions, and its sums written a second time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.cluster_state.pod_records import queue_of
from compiler.specs.namespace_queues import queues_not_ready, workload_queue
from compiler.specs.queue_spec import QueueSpec
from tests.builders.specs import queue

SCIENCE = queue("science", allowed_namespaces=("ml",), deserved={"cpu": 8000})


def local(name: str, parent: str, **more: object) -> QueueSpec:
    return replace(queue(f"ml/{name}", parent, **more), namespace="ml")


@pytest.mark.parametrize(
    ("queues", "name", "reason", "refused"),
    [
        ([SCIENCE, local("a", "science")], "ml/a", None, None),
        ([local("a", "default")], "ml/a", None, None),
        ([SCIENCE, local("a", "other")], "ml/a", "ParentNotFound", True),
        ([SCIENCE, local("a", "ml/later")], "ml/a", "ParentNotFound", False),
        ([queue("science"), local("a", "science")], "ml/a", "NamespaceNotAllowed", True),
        ([replace(SCIENCE, allowed_namespaces=("*",)), local("a", "science")], "ml/a", None, None),
        ([replace(SCIENCE, open=False), local("a", "science")], "ml/a", "ParentNotReady", False),
        ([queue("science", open=False), local("a", "science")], "ml/a", "NamespaceNotAllowed", True),
        ([local("a", "ml/b"), local("b", "ml/a")], "ml/a", "HierarchyCycle", True),
        ([local("a", "ml/a")], "ml/a", "HierarchyCycle", True),
        ([queue("science"), local("a", "science"), local("b", "ml/a")], "ml/b", "ParentNotAuthorized", False),
        ([replace(SCIENCE, open=False), local("a", "science"), local("b", "ml/a")], "ml/b", "ParentNotReady", False),
        ([SCIENCE, local("a", "science", deserved={"cpu": 9000})], "ml/a", "ParentConstraintViolation", False),
        ([SCIENCE, local("a", "science", deserved={"nvidia.com/gpu": 9})], "ml/a", None, None),
        (
            [replace(SCIENCE, capability={"cpu": 1000}), local("a", "science", capability={"cpu": 2000})],
            "ml/a",
            "ParentConstraintViolation",
            False,
        ),
        (
            [SCIENCE, queue("child", "science", deserved={"cpu": 4000}), local("a", "science", deserved={"cpu": 5000})],
            "ml/a",
            "ParentConstraintViolation",
            False,
        ),
    ],
)
def test_the_first_condition_that_fails_is_the_reason(
    queues: Sequence[QueueSpec], name: str, reason: str | None, refused: bool | None
) -> None:
    for order in (queues, queues[::-1]):
        found = queues_not_ready(order).get(name)
        assert (None if found is None else found.reason) == reason
        assert found is None or found.refused == refused


def test_five_levels_below_the_clusters_queue_are_allowed() -> None:
    chain = [SCIENCE, local("q1", "science"), *(local(f"q{n}", f"ml/q{n - 1}") for n in range(2, 8))]
    found = queues_not_ready(chain)
    assert set(found) == {"ml/q6", "ml/q7"}
    assert (found["ml/q6"].reason, found["ml/q6"].refused) == ("HierarchyDepthExceeded", True)


@st.composite
def trees(draw: st.DrawFn) -> list[QueueSpec]:
    """A cluster's queue that all namespaces may use, with children of both kinds below it, in two levels."""
    amount = st.dictionaries(st.sampled_from(("cpu", "gpu")), st.integers(0, 4), max_size=2)
    queues = [queue("top", allowed_namespaces=("*",), deserved=draw(amount), guarantee=draw(amount))]
    for n in range(draw(st.integers(1, 5))):
        above = draw(st.sampled_from(queues))
        fields = {"deserved": draw(amount), "guarantee": draw(amount), "capability": draw(amount)}
        if above.namespace or draw(st.booleans()):
            queues.append(local(f"q{n}", above.name, **fields))
        else:
            queues.append(queue(f"c{n}", above.name, allowed_namespaces=("*",), **fields))
    return queues


@given(trees())
def test_amounts_hold_along_the_tree(queues: list[QueueSpec]) -> None:
    """A ready queue keeps all sums and ceilings around it, and so do its ancestors; one that is not breaks one of them,
    or hangs below one that does."""
    by_name = {each.name: each for each in queues}
    not_ready = queues_not_ready(queues)

    def breaks(each: QueueSpec) -> bool:
        above = by_name.get(each.parent or "")
        groups = [group for group in (above, each) if group is not None]
        sums = any(
            sum(getattr(child, field).get(name, 0) for child in queues if child.parent == group.name) > limit
            for group in groups
            for field in ("deserved", "guarantee")
            for name, limit in getattr(group, field).items()
        )
        at, ceilings = above, False
        while at is not None:
            ceilings |= any(each.capability.get(name, 0) > limit for name, limit in at.capability.items())
            at = by_name.get(at.parent or "")
        return sums or ceilings

    for each in queues:
        if each.namespace:
            above = by_name[each.parent or ""]
            expected = breaks(each) or above.name in not_ready
            assert (each.name in not_ready) == expected
        else:
            assert each.name not in not_ready


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("train", "train"),
        ("namespace/train", "ml/train"),
        ("namespace/train.v2", "ml/train.v2"),
        ("ml/train", "ml/train"),  # refused (GP438), and no other queue's name
        ("namespaces/train", "namespaces/train"),
        ("namespace", "namespace"),
        ("", ""),
    ],
)
def test_workloads_name_a_queue_of_their_own_namespace_by_a_fixed_word(written: str, meant: str) -> None:
    assert workload_queue("ml", written) == meant


def test_what_the_cluster_has_is_read_by_the_same_grammar() -> None:
    metadata = {"name": "x", "namespace": "ml"}
    group = {"metadata": metadata, "spec": {"queue": "namespace/train"}}
    pod = {"metadata": metadata}
    named = {"metadata": {**metadata, "annotations": {"scheduling.volcano.sh/queue-name": "namespace/eval"}}}
    assert [queue_of(pod, group), queue_of(named, group), queue_of(named, None)] == ["ml/train", "ml/eval", "ml/eval"]
