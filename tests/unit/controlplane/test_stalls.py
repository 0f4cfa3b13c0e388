"""Threads that waited long for a processor are noted, and others are not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.controlplane.stalls import PERIOD, StallWatch


class Kernel:
    """A /proc with one process whose threads ran and waited as told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tell()

    def tell(self, *threads: tuple[float, float], stolen: float = 0.0) -> None:
        """threads: seconds that each has run, and has waited, since it began."""
        (self.folder / "stat").write_text(f"cpu 1 2 3 4 5 6 7 {int(stolen * 100)} 9 10\n")
        for at, (ran, waited) in enumerate(threads):
            place = self.folder / "7" / "task" / str(at)
            place.mkdir(parents=True, exist_ok=True)
            (place / "schedstat").write_text(f"{int(ran * 1e9)} {int(waited * 1e9)} 12\n")


@pytest.mark.parametrize(
    ("threads", "stolen", "late", "noted"),
    [
        (
            [(3.0, 101.0), (1.5, 1.6)],
            0.0,
            0.0,
            ["a thread of api waited 100.0 s for a processor; its threads ran 1.5 s"],
        ),
        ([(2.0, 5.5), (1.0, 6.0)], 0.0, 0.0, []),
        (
            [(2.0, 1.0), (1.0, 1.5), (0.1, 9.0)],
            0.0,
            0.0,
            ["a thread of api waited 9.0 s for a processor; its threads ran 0.1 s"],
        ),
        ([(2.0, 1.0)], 6.0, 0.0, ["the host took 6.0 s of the processors"]),
        ([(2.0, 1.0)], 0.0, 30.0, ["this thread of the test's process looked 30.0 s late"]),
    ],
)
def test_long_waits_are_noted(
    tmp_path: Path, threads: list[tuple[float, float]], stolen: float, late: float, noted: list[str]
) -> None:
    kernel = Kernel(tmp_path)
    watch = StallWatch(lambda: {"api": 7}, tmp_path)
    begin = time.monotonic()
    kernel.tell((2.0, 1.0), (1.0, 1.5))
    watch.look(begin + PERIOD)
    assert watch.notes == []
    kernel.tell(*threads, stolen=stolen)
    watch.look(begin + 2 * PERIOD + late)
    assert [note.partition(" ")[2] for note in watch.notes] == noted
    assert all(note in watch.report() for note in watch.notes)


def test_a_component_that_ended_and_a_system_without_these_files_are_no_failure(tmp_path: Path) -> None:
    watch = StallWatch(lambda: {"api": 7}, tmp_path / "nowhere")
    assert "no component waited long for a processor" in watch.report()
