"""Plans held against the oracle."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from compiler.cluster_state.cluster_state import ClusterState
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from solver.options import Options
from solver.semantics.gang_classes import pods_per_role
from tests.builders.plans import without_repairs

ROOT = Path(__file__).parents[2]
FOUND_FOLDER = Path(__file__).parent / "found"
"""Repositories on which plan and oracle once disagreed, each in a folder of its own."""

Files = Mapping[str, bytes]
Maker = Callable[[int], dict[str, bytes]]
"""Number -> the files of the repository with this number."""
Plan = dict[str, Any]
"""files: path -> text. started: jobs. grown: of those that start with more pods than they need -> pods of each role.
reached: objective called proven -> value. unproven: what else the plan says, reasons that say nothing among it."""


def differences(repositories: Sequence[Files]) -> list[list[str]]:
    """Of each repository what the oracle knows better than its plan; nothing where they agree."""
    plans = [plan_of(files) for files in repositories]
    return [plan["unproven"] + wrong for plan, wrong in zip(plans, judged(plans), strict=True)]


def plan_of(files: Files) -> Plan:
    documents = [each for text in files.values() for each in yaml.load_all(text, yaml.CSafeLoader) if each]
    # Jobs are there already, so that the plan holds none.
    state = ClusterState.from_objects([each for each in documents if each["kind"] in ("Job", "ConfigMap")])
    own = {path: text for path, text in files.items() if not path.startswith("state/")}
    outcome = compile_repository(Repository(own), state=state, options=without_repairs(Options()))
    assert outcome.plan is not None, outcome.diagnostics
    errors = [f"{each.code}: {each.message}" for each in outcome.diagnostics if each.severity == "error"]
    objectives = [each for batch in outcome.plan.batches for each in batch.objectives]
    unproven = [f"{each.name}: {each.verdict}" for each in objectives if each.verdict != "proven"]
    undecided = [each for each in outcome.decisions if any(reason.code == "GW110" for reason in each.reasons)]
    unproven += [f"{each.name} waits for no known reason" for each in undecided]
    problem = outcome.problem
    assert problem is not None
    starting = [decision for decision in outcome.plan.decisions if decision.action == "start"]
    sizes = {d.gang: pods_per_role(len(problem.gangs[d.gang].roles), d.placements) for d in starting}
    grown = {problem.gangs[j].name: pods for j, pods in sizes.items() if sum(pods) > problem.gangs[j].minimum}
    return {
        "grown": grown,
        "files": {path: content.decode() for path, content in files.items()},
        "started": [decided.name for decided in outcome.decisions if decided.action == "start"],
        "reached": {each.name: each.value for each in objectives if each.verdict == "proven"},
        "unproven": errors + unproven,
    }


def judged(plans: Sequence[Plan]) -> list[list[str]]:
    """What the oracle, a process of its own, finds wrong with each plan."""
    judge = _judge()
    assert judge.stdin is not None
    assert judge.stdout is not None
    judge.stdin.write(json.dumps(plans) + "\n")
    judge.stdin.flush()
    if not (line := judge.stdout.readline()):
        _judge.cache_clear()
        raise RuntimeError(f"the oracle ended with exit code {judge.wait()}; what it says goes to our stderr")
    answers: list[list[str]] = json.loads(line)
    return answers


@cache
def _judge() -> subprocess.Popen[str]:
    """One for all questions of this process: OR-tools take longer to load than to judge a dozen plans."""
    command = [sys.executable, "-m", "tests.oracle.judge"]
    judge = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(judge.communicate)  # it ends with its input
    return judge
