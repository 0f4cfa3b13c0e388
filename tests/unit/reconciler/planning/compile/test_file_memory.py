"""Files of the last commit are not read again."""

from __future__ import annotations

from compiler.reading.files import configurations_inside
from reconciler.planning.compile.worker import FileMemory

JOB = b"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: train}\n"
OTHER = JOB.replace(b"train", b"other")


def test_a_file_is_known_by_name_and_content_for_as_long_as_the_repository_has_it() -> None:
    memory = FileMemory()
    memory.keep_only({"jobs/a.yaml": JOB, "jobs/b.yaml": OTHER, "README.md": b"text"})
    assert memory.known.keys() == {("jobs/a.yaml", JOB), ("jobs/b.yaml", OTHER)}
    kept = memory.known["jobs/b.yaml", OTHER]
    assert kept.readings, "what its documents say is known as well"
    memory.keep_only({"jobs/a.yaml": OTHER, "jobs/b.yaml": OTHER})
    assert memory.known.keys() == {("jobs/a.yaml", OTHER), ("jobs/b.yaml", OTHER)}
    assert memory.parse("jobs/b.yaml", OTHER, configurations_inside) is kept
    assert memory.parse("jobs/c.yaml", OTHER, configurations_inside) is not kept
