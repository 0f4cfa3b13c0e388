"""The search for repositories on which plan and oracle disagree: `scripts/hunt --oracle [MINUTES]`."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.oracle.comparison import FOUND_FOLDER, ROOT, Files, Maker, differences
from tests.oracle.crowded import crowded_repository
from tests.oracle.newer import newer_repository
from tests.oracle.richer import richer_repository
from tests.oracle.worlds import random_repository

WORLDS_PER_ROUND = 100
MAKERS: tuple[Maker, ...] = (random_repository, richer_repository, crowded_repository, newer_repository)
KEPT_KINDS = ("Cluster", "SchedulerConfiguration", "ConfigMap")
"""Without a scheduler's configuration the plan takes Volcano's default, and the oracle no plugin."""


def hunt(minutes: float, seed: int | None) -> int:
    """The exit code: 1 when a world was found. seed: of the only round."""
    end, found, rounds = time.time() + 60 * minutes, list[Path](), 0
    while not rounds or (seed is None and time.time() < end):
        first = random.SystemRandom().randrange(10**9) if seed is None else seed
        print(f"round with seed {first}", flush=True)
        seeds = range(first, first + WORLDS_PER_ROUND)
        worlds = [MAKERS[each % len(MAKERS)](each) for each in seeds]
        for each, files, wrong in zip(seeds, worlds, differences(worlds), strict=True):
            if wrong:
                found.append(write_found(f"seed-{each}", shrunk(files)))
                print(f"found: {found[-1].relative_to(ROOT)}: {'; '.join(wrong)}", flush=True)
        rounds += 1
    print("failed" if found else f"no difference in {rounds * WORLDS_PER_ROUND} worlds")
    return 1 if found else 0


def shrunk(files: Files) -> Files:
    """The repository without the documents that the difference does not need, tried one after the other."""
    smaller = True
    while smaller:
        smaller = False
        tries = list(_without_one(files))
        for attempt in tries:
            if _differs(attempt):
                files, smaller = attempt, True
                break
    return files


def _without_one(files: Files) -> Iterator[Files]:
    for path, text in files.items():
        documents = list(yaml.safe_load_all(text))
        for n, document in enumerate(documents):
            rest = documents[:n] + documents[n + 1 :]
            if document["kind"] not in KEPT_KINDS:
                others = {other: content for other, content in files.items() if other != path}
                yield {**others, path: yaml.safe_dump_all(rest, sort_keys=False).encode()} if rest else others


def _differs(files: Files) -> bool:
    """Whether plan and oracle disagree about a repository in which nothing is wrong."""
    try:
        (wrong,) = differences([files])
    except (AssertionError, KeyError, RuntimeError):  # what is left does not fit together
        return False
    return bool(wrong) and not any(line.startswith("GP") for line in wrong)


def write_found(name: str, files: Files) -> Path:
    """Write the repository into the folder of found cases, which tests/oracle/test_oracle.py plans again."""
    for path, content in files.items():
        at = FOUND_FOLDER / name / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(content)
    return FOUND_FOLDER / name
