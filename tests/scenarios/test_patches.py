"""Each repair that is a certain edit of files is applied as its patch, and the job starts."""

from __future__ import annotations

from collections import Counter

from compiler.cluster_state.cluster_state import load_state
from compiler.emit.repaired_files import edited_by_repairs
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from tests.golden.test_golden import HERE, compiled

CASES = ("better-by-sizes", "hard-topology", "neighbours", "queue-limit", "reservation", "running")
EDITS = {"GR101": 1, "GR105": 2, "GR117": 1, "GR119": 1, "GR121": 1}


def test_every_patch_starts_its_job_or_says_who_comes_first() -> None:
    seen, waiting = Counter[str](), list[str]()
    for case in CASES:
        tree, state = Repository.from_directory(HERE / case / "repo"), HERE / case / "state.yaml"
        for decision in compiled(case).decisions:
            for message, files in edited_by_repairs(compiled(case), decision, tree):
                if files is not None:
                    seen[message.code] += 1
                    held = load_state(state.read_bytes()) if state.is_file() else None
                    again = compile_repository(tree.with_files(files), state=held)
                    if again.by_key[decision.key].action not in ("start", "keep"):
                        waiting.append(f"{decision.gang.document.name}: {message.message}")
    assert [each for each in waiting if "waits for it too and" not in each] == []
    assert {code: count for code, count in EDITS.items() if seen[code] < count} == {}
