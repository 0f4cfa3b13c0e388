"""Which actions and plugins Volcano's scheduler goes through, by its metrics: each is counted in each cycle. It logs
a configuration that it cannot use, and goes on with the last one."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from reconciler.cluster.client import short_error
from reconciler.threads.heartbeat import Heartbeat, start_thread
from reconciler.timings import TIMINGS, SchedulerTimings

CHART_ADDRESS = "http://volcano-scheduler-service.volcano-system:8080/metrics"
"""Where Volcano's Helm chart has the metrics, seen from a pod."""
ANSWER_LIMIT = 16 << 20
_COUNTS = re.compile(r"^volcano_(action|plugin)_scheduling_latency_milliseconds_count\{([^}]*)\} (\S+)", re.MULTILINE)
_CYCLES = re.compile(r"^volcano_e2e_scheduling_latency_milliseconds_count (\S+)", re.MULTILINE)


def default_address(environment: Mapping[str, str]) -> str:
    """Where the metrics are looked for when nothing is said: in a cluster at the service of Volcano's chart."""
    return CHART_ADDRESS if "KUBERNETES_SERVICE_HOST" in environment else ""


def read_counts(text: str) -> tuple[float, Mapping[str, float]]:
    """Cycles that have ended, and how often each part ("action allocate") was gone through. Raises ValueError."""
    cycles = _CYCLES.search(text)
    if cycles is None:
        raise ValueError("these are no metrics of Volcano's scheduler")
    counts: Counter[str] = Counter()
    for kind, labels, count in _COUNTS.findall(text):
        if name := re.search(rf'\b{kind}="([^"]*)"', labels):
            counts[f"{kind} {name[1]}"] += float(count)  # type: ignore[assignment]
    return float(cycles[1]), counts


class SchedulerProbe:
    """Looks at the metrics; `wake` is called when what they show has changed. active: the parts that the scheduler goes
    through; None while that is not known. problem: why the metrics cannot be read."""

    def __init__(
        self,
        url: str,
        wake: Callable[[], None],
        read: Callable[[str], str] | None = None,
        timings: SchedulerTimings = TIMINGS.scheduler,
    ) -> None:
        self.url, self.wake, self.timings = url, wake, timings
        self._read = read or partial(_fetch, seconds=timings.probe)
        self.active: frozenset[str] | None = None
        self.problem = ""
        self.heartbeat = Heartbeat("scheduler", timings.probe_limit)
        self._base: tuple[float, Mapping[str, float]] | None = None
        self._stop = threading.Event()

    def start(self) -> None:
        if self.url:
            start_thread(self.look, self._stop, self.heartbeat)

    def stop(self) -> None:
        self._stop.set()

    def look(self) -> float:
        """Look once; seconds until the next time."""
        before = self.active, self.problem
        try:
            self._compare(*read_counts(self._read(self.url)))
            self.problem = ""
        except (OSError, ValueError) as error:
            self.active, self._base = None, None
            self.problem = f"the scheduler's metrics cannot be read: {short_error(error)}"
        if (self.active, self.problem) != before:
            self.wake()
        return self.timings.probe

    def _compare(self, cycles: float, counts: Mapping[str, float]) -> None:
        if self._base is None or cycles < self._base[0]:  # it has begun anew
            self.active, self._base = None, (cycles, counts)
        elif cycles >= self._base[0] + self.timings.whole_cycles:
            former = self._base[1]
            self.active = frozenset(part for part, count in counts.items() if count > former.get(part, 0.0))
            self._base = cycles, counts


def _fetch(url: str, seconds: float) -> str:
    with urllib.request.urlopen(url, timeout=seconds) as answer:  # noqa: S310  # the operator's own address
        text: bytes = answer.read(ANSWER_LIMIT)
    return text.decode("utf-8", "replace")
