"""What a change of the scheduler's configuration means, in sentences."""

from __future__ import annotations

from dataclasses import replace

from compiler.comparison.cluster import behaviour_changes
from compiler.specs.cluster_spec import SchedulerSpec
from tests.builders.specs import document

BEFORE = SchedulerSpec(document("SchedulerConfiguration", "a"), "a", "volcano-system", ("allocate",), (), {})


def test_another_config_map_is_a_change_where_gangplan_writes_both() -> None:
    after = replace(BEFORE, name="b")
    assert list(behaviour_changes(BEFORE, after)) == [
        "ConfigMap volcano-system/a -> volcano-system/b: it has no effect until Volcano's scheduler mounts that one"
    ]
    assert list(behaviour_changes(replace(BEFORE, is_emitted=False), after)) == []


def test_another_key_of_the_config_map_has_no_effect_by_itself() -> None:
    """Seen once: no change was reported."""
    before, after = (replace(BEFORE, raw_text="", base_path=("data", key)) for key in ("a.conf", "b.conf"))
    assert list(behaviour_changes(before, after)) == [
        "key a.conf -> b.conf of the ConfigMap: it has no effect until --scheduler-conf names that one"
    ]


def test_another_source_of_metrics_is_a_change() -> None:
    after = replace(BEFORE, metrics={"address": "http://p", "type": "prometheus"})
    assert list(behaviour_changes(BEFORE, after)) == [
        "metrics: address not set -> http://p",
        "metrics: type not set -> prometheus",
    ]
