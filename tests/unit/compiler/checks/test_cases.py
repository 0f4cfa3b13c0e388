"""Every code has a repository that breaks its rule beside one that keeps it; each case states all that `check` says,
and where."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from compiler.checks.catalogue import all_rules
from compiler.reading import read_specs
from compiler.repository.tree import Repository

FIXTURES = Path(__file__).parents[3] / "fixtures" / "diagnostics"
IN_BYTES = {"GP104", "GP105", "GP106", "GP119", "GP120", "GP122", "GP126"}
"""Tested in tests/unit/compiler/syntax/test_bytes.py: a text file cannot show them."""
ELSEWHERE = {"GP128", "GP130", "GP133", "GP134", "GP139"}
"""Found among several clusters, in git objects, by kustomize and where our own code fails: tested where those are."""
OF_MANY = ("GP357", "GP435")
"""Said of any kind that the shipped rights do not cover, and of any configuration without the plugin predicates,
whatever a case is about: stated in their own cases only."""

_POD = "{spec: {restartPolicy: Never, containers: [{name: main, image: a, resources: {requests: {cpu: 1}}}]}}"
_MACROS = {
    "pod": _POD,
    "vpod": _POD.replace("{spec: {", "{spec: {schedulerName: volcano, "),
    "dpod": _POD.replace("{spec: {", "{spec: {schedulerName: default-scheduler, "),
    "torch": _POD.replace("main", "pytorch").replace("{spec: {", "{spec: {schedulerName: NAME, "),
    "job": "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: NAME, namespace: team-a}",
    "queue": "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: NAME}",
    "hypernode": "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {name: NAME}",
    "priority": "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NAME}",
    "podgroup": "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: NAME, namespace: team-a}",
    "member": "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME, namespace: team-a, labels: {OTHER: x}, "
    "annotations: {scheduling.k8s.io/group-name: ring}}\n"
    "spec: {schedulerName: volcano, containers: [{name: main, image: a, resources: {requests: {cpu: 1}}}]}",
    "configmap": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}",
    "cluster": "apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\n"
    "spec: {count: 4, capacity: {cpu: 8}}\nmetadata: {name: gpu}",
    "node": "apiVersion: v1\nkind: Node\n"
    "metadata: {name: NAME, labels: {zone: 'OTHER', kubernetes.io/hostname: NAME}}\n"
    "status: {allocatable: {cpu: 8}}",
    "conf": "apiVersion: gangplan.dev/v1alpha1\nkind: SchedulerConfiguration\n"
    "metadata: {name: volcano-scheduler-configmap}\nspec:",
    "rawconf": "apiVersion: v1\nkind: ConfigMap\n"
    "metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}\n"
    "data:\n  volcano-scheduler.conf: |\n    configurations: &off\n"
    "    - {name: allocate, arguments: {predicateErrorCacheEnable: false}}\n"
    "    - {name: backfill, arguments: {predicateErrorCacheEnable: false}}",
    "metax": "{metadata: {annotations: {metax-tech.com/gpu-group-size: 'NAME'ATOMIC}}, "
    "spec: {containers: [{name: main, image: a, resources: {limits: {metax-tech.com/gpu: OTHER}}}]}}",
}


@dataclass(frozen=True)
class Case:
    code: str
    fails: bool
    title: str
    files: dict[str, bytes]
    expected: list[tuple[str, int, int | None, str]]


def _spelled_out(match: re.Match[str]) -> str:
    name, *arguments = match.group(1).split()
    text = (
        _MACROS[name]
        .replace("NAME", arguments[0] if arguments else "train")
        .replace("OTHER", arguments[1] if len(arguments) > 1 else "")
    )
    return text.replace(
        "ATOMIC", f", metax-tech.com/atomic-gpu-group-size: '{arguments[2]}'" if len(arguments) > 2 else ""
    )


def _files(text: str) -> dict[str, str]:
    parts = re.split(r"^## (\S+)\n", text, flags=re.MULTILINE)
    spelled = [re.sub(r"\{\{([a-z][^}]*)\}\}", _spelled_out, part).replace("\\t", "\t") for part in parts]
    return dict(zip(spelled[1::2], spelled[2::2], strict=True))


def load_cases(path: Path) -> list[Case]:
    base = _files((FIXTURES / "base.txt").read_text())
    found = re.split(r"^=== (GP\d+) (pass|fail): (.+)\n", path.read_text(), flags=re.MULTILINE)
    cases = []
    for code, outcome, title, body in zip(found[1::4], found[2::4], found[3::4], found[4::4], strict=True):
        files = {name: text for name, text in {**base, **_files(body)}.items() if text}
        expected: list[tuple[str, int, int | None, str]] = [
            (name, int(line), None, what)
            for name, line, what in re.findall(r"^expect (\S+):(\d+) (GP\d+)$", body, flags=re.MULTILINE)
        ]
        for name, text in files.items():
            for number, line in enumerate(text.split("\n"), start=1):
                if told := re.search(r"# expect: (.+)$", line):
                    wanted = [part.partition("@") for part in told.group(1).split()]
                    expected += [(name, number, int(column) if column else None, what) for what, _, column in wanted]
        cases.append(
            Case(code, outcome == "fail", title, {name: text.encode() for name, text in files.items()}, expected)
        )
    return cases


CASES = [case for path in sorted(FIXTURES.glob("*.txt")) if path.name != "base.txt" for case in load_cases(path)]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.code} {'fail' if case.fails else 'pass'}: {case.title}"
)
def test_case(case: Case) -> None:
    diagnostics = read_specs(Repository(case.files)).diagnostics
    found = [d for d in diagnostics if d.code not in OF_MANY or case.code == d.code]
    said = [f"{d.position.file}:{d.position.line}:{d.position.column} {d.code} {d.message}. {d.help}" for d in found]
    columns = {(file, line, code): column for file, line, column, code in case.expected}
    exact = {
        (
            d.position.file,
            d.position.line,
            d.position.column if columns.get((d.position.file, d.position.line, d.code)) else None,
            d.code,
        )
        for d in found
    }
    assert exact == set(case.expected), "\n".join(said)
    if not case.fails:
        assert case.code not in {d.code for d in found}
    assert all(d.message and d.help for d in found), said


def test_every_code_is_tested_with_a_breach_and_its_mend() -> None:
    codes = {code for code in all_rules() if code < "GP5"} - IN_BYTES - ELSEWHERE
    assert {case.code for case in CASES if case.fails and case.expected} == codes
    assert {case.code for case in CASES if not case.fails} == codes


def test_failing_cases_report_their_own_code() -> None:
    for case in CASES:
        if case.fails and case.code not in ("GP118", "GP413"):
            assert case.code in {code for *_, code in case.expected}, case.title
