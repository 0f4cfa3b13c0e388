"""The thread that fetches: pauses, backoff, and that nothing ends it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from reconciler.git.mirror import GitPoller, Mirror, Unfinished
from reconciler.git.process import GitError
from reconciler.timings import TIMINGS
from tests.builders.git_source import Source


@pytest.fixture
def poller(source: Source, tmp_path: Path) -> GitPoller:
    source.commit(a="1\n")
    return GitPoller(Mirror(str(source.folder), "main", tmp_path / "mirror.git"), 10.0, lambda: None)


def raise_on_fetch(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fetch(_: Mirror) -> str:
        raise error

    monkeypatch.setattr(Mirror, "fetch", fetch)


@pytest.mark.parametrize("error", [GitError("no route"), OSError("disk full"), MemoryError(), TypeError("surprise")])
def test_whatever_a_fetch_ends_in_is_a_problem_and_the_last_head_stays(
    error: Exception, poller: GitPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    poller.on_poll = lambda good, seconds: seen.append(good)
    poller.poll_once()
    head = poller.head
    assert (bool(head.commit), head.problem) == (True, "")
    raise_on_fetch(monkeypatch, error)
    poller.poll_once()
    assert (poller.head.commit, poller.head.tree) == (head.commit, head.tree)
    assert poller.head.problem
    assert str(error) in poller.head.problem
    monkeypatch.undo()
    poller.poll_once()
    assert poller.head == head
    assert seen == [True, False, True]
    assert poller.heartbeat.errors == (not isinstance(error, (GitError, OSError)))


def test_pauses_vary_grow_with_failures_and_have_an_end(poller: GitPoller, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = {poller.pause() for _ in range(20)}
    assert len(pauses) > 1
    least, most = TIMINGS.git.jitter
    assert all(10 * least <= pause <= 10 * most for pause in pauses)
    raise_on_fetch(monkeypatch, GitError("down"))
    longest = []
    for _ in range(8):
        poller.poll_once()
        longest.append(poller.pause() / most)
    assert longest[1] > 10 * most * 1.5
    assert max(longest) <= TIMINGS.git.longest_pause
    monkeypatch.undo()
    poller.poll_once()
    assert poller.pause() <= 10 * most, "success ends the backoff"


def test_a_first_clone_that_is_under_way_goes_on_at_once(poller: GitPoller, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_on_fetch(monkeypatch, Unfinished("64 commits are here"))
    poller.poll_once()
    assert poller.head.problem == "64 commits are here"
    assert poller.failures == 0
    assert poller._poked.is_set()


def test_a_poke_fetches_long_before_the_pause_is_over(poller: GitPoller, source: Source) -> None:
    poller.interval = 3600.0
    woken = threading.Event()
    poller.wake = woken.set
    poller.start()
    try:
        assert woken.wait(60)
        woken.clear()
        before = poller.head.commit
        source.commit(a="2\n")
        poller.poke()
        assert woken.wait(60)
        assert poller.head.commit != before
    finally:
        poller.stop()


def test_a_fetch_that_hangs_is_reported_long_before_git_gives_up(
    poller: GitPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen once: for two minutes `Fetched` was true while git hung."""
    poller.poll_once()
    fetch, goes_on, begun, woken = Mirror.fetch, threading.Event(), threading.Event(), threading.Event()
    poller.timings, poller.wake = replace(TIMINGS.git, slow=0.01), woken.set

    def hang(mirror: Mirror) -> str:
        begun.set()
        assert goes_on.wait(60)
        return fetch(mirror)

    monkeypatch.setattr(Mirror, "fetch", hang)
    thread = threading.Thread(target=poller.poll_once)
    thread.start()
    assert begun.wait(60)
    time.sleep(0.02)
    assert poller.head_now() == replace(poller.head, problem="a fetch has not ended in 0.01 s")
    goes_on.set()
    thread.join(60)
    assert (poller.head_now().problem, poller.slow_at(), woken.is_set()) == ("", inf, True)


def test_after_a_poke_the_loop_is_woken_though_nothing_is_new(poller: GitPoller) -> None:
    """It waits for a fetch that begins later."""
    woken = threading.Event()
    poller.poll_once()
    since = poller.fetched_at
    poller.wake, poller.interval = woken.set, 3600.0
    poller.start()
    try:
        poller.poke()
        assert woken.wait(60)
        assert poller.fetched_at > since
    finally:
        poller.stop()
