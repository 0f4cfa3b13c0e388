"""restart: the API server stops and returns after a while, and a commit made meanwhile is planned."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

from bench.reconcile.bed import GPUS, Bed, NotifiedReconciler, Row, Sizes
from bench.reconcile.nodes import gang_repository
from tests.e2e.stories.story import queue

OUTAGE = 30.0
"""Seconds after which each pause between two attempts has grown to its longest, and the lease has run out."""
RESTART_BAR = 10.0


def measure_restart(bed: Bed, _sizes: Sizes) -> Iterator[Row]:
    """Seconds from the API server's being ready again until a compile begins, and until its plan is in force."""
    bed.add_gpu_nodes(4)
    repository = gang_repository(bed, 4)
    with NotifiedReconciler(bed, repository) as reconciler:
        reconciler.wait_until_settled(repository.run_git("rev-parse", "HEAD"))
        bed.plane.kill("kube-apiserver")
        repository.write_file("cluster-specs/test/another.yaml", queue("another", gpus=GPUS))
        commit = reconciler.commit()
        time.sleep(OUTAGE)
        bed.plane.restart("kube-apiserver")
        bed.plane.wait_until(lambda: bed.plane.api("GET", "/readyz"), what="the API server")
        ready_at = time.time()
        reconciler.wait_until_settled(commit)
        settled_at = time.time()
        lines = reconciler.log_lines()
        begun = next(line for line in lines if line["message"] == "a compile begins" and line["commit"] == commit)
        begun_at = datetime.fromisoformat(begun["time"]).timestamp()
        yield Row("restart", "API server ready to compile", max(0.0, begun_at - ready_at), bar=RESTART_BAR)
        yield Row("restart", "API server ready to plan in force", settled_at - ready_at)
