"""Dashboard and alerts name metrics, labels and conditions that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from deploy.generate import FOLDER
from reconciler.report.metrics import Metrics
from reconciler.report.status import FAILURE_TYPE
from reconciler.report.status_text import CONDITION_TYPES

MONITORING = FOLDER / "monitoring"
EXPORTED_LABELS = {"instance", "pod", "le"}
"""Labels that Prometheus itself sets."""


def known_names() -> dict[str, set[str]]:
    """Name of a series -> its labels."""
    metrics = Metrics()
    found: dict[str, set[str]] = {}
    for collector in vars(metrics).values():
        if (name := getattr(collector, "_name", None)) is None:
            continue
        labels = set(collector._labelnames)
        suffixes = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}[collector._type]
        found |= {name + suffix: labels for suffix in suffixes}
    return found


def expressions() -> Iterator[str]:
    for rule in alert_rules():
        yield rule["expr"]
    for panel in json.loads((MONITORING / "dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def alert_rules() -> list[dict[str, str]]:
    (group,) = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    rules: list[dict[str, str]] = group["rules"]
    return rules


def test_every_series_exists() -> None:
    names = known_names()
    used = {name for text in expressions() for name in re.findall(r"gangplan_\w+", text)}
    assert used - names.keys() == set()
    assert len(used) > 15


def test_every_metric_is_on_the_dashboard() -> None:
    """A metric that nobody looks at is none."""
    text = (MONITORING / "dashboard.json").read_text()
    series = {re.sub(r"_(bucket|sum|count)$", "", name) for name in known_names()}
    assert {name for name in series if name not in text} == set()


def test_every_label_exists() -> None:
    labels = EXPORTED_LABELS.union(*known_names().values())
    for text in expressions():
        for group in re.findall(r"(?:by|on) \(([^)]*)\)", text):
            assert set(group.split(", ")) <= labels, text
        assert set(re.findall(r"(\w+)=~?\"", text)) <= labels, text


def test_every_condition_is_alerted_on_by_its_bad_side() -> None:
    named = {
        name for text in expressions() for found in re.findall(r'type=~"([^"]+)"', text) for name in found.split("|")
    }
    assert named == {*CONDITION_TYPES} - {"Fetched"}, "Fetched has an alert of its own, by age"


def test_each_alert_says_what_to_do() -> None:
    for rule in alert_rules():
        assert {"alert", "expr", "labels", "annotations"} <= rule.keys()
        assert {"summary", "description"} == set(rule["annotations"])


def test_each_condition_has_a_sentence_for_both_sides() -> None:
    sources = [file.read_text() for file in (Path(FOLDER).parent / "reconciler").rglob("*.py")]
    kinds = {kind for text in sources for kind in re.findall(r'Condition(?:\.of_texts)?\(\s*"(\w+)"', text)}
    assert kinds | {FAILURE_TYPE} == {*CONDITION_TYPES}
