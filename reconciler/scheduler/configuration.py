"""Finds out whether the scheduler uses the written configuration.

Its metrics show the actions and plugins that it runs: each is counted in each cycle. It logs a configuration that it
cannot use, and continues with the last one.
"""

from __future__ import annotations

import re
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from http.client import HTTPException

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from reconciler.cluster.client import short_error
from reconciler.threads.heartbeat import Heartbeat, start_thread
from reconciler.timings import TIMINGS, SchedulerTimings

_KEPT = ("written", "previous", "refused", "reason")
"""The fields that the next process needs."""


@lru_cache(maxsize=8)
def parts_of(text: str) -> frozenset[str]:
    """Return the actions and plugins of a configuration, as the scheduler counts them; none where it cannot be read."""
    try:
        conf = YAML(typ="safe", pure=True).load(text)
        actions = [f"action {name.strip()}" for name in str(conf["actions"]).split(",") if name.strip()]
        plugins = [f"plugin {plugin['name']}" for tier in conf["tiers"] for plugin in tier.get("plugins") or ()]
    except (YAMLError, KeyError, TypeError, AttributeError):
        return frozenset()
    return frozenset((*actions, *plugins))


@dataclass(slots=True)
class SchedulerMemory:
    """The written configurations and their effect.

    written, previous: the configuration that was written last, and the one before it. refused: one that the scheduler
    did not accept, so that the previous one is in force again, and `reason` why. behind: the difference between the
    scheduler and its ConfigMap, since `behind_since` (on the clock). patience: seconds within which the scheduler has
    to use a new configuration.
    """

    patience: float
    written: str = ""
    previous: str = ""
    refused: str = ""
    reason: str = ""
    behind: str = ""
    behind_since: float = 0.0

    @classmethod
    def of_kept(cls, kept: Mapping[str, str], patience: float) -> SchedulerMemory:
        written, previous, refused, reason = (kept.get(name, "") for name in _KEPT)
        return cls(patience, written, previous, refused, reason)

    def kept(self) -> dict[str, str]:
        """Return the memory for the next process, stored in the inventory."""
        return {name: text for name in _KEPT if (text := getattr(self, name))}

    def record_write(self, text: str, former: str, now: float) -> None:
        """Note that this text has taken the former one's place."""
        self.written, self.previous, self.refused, self.reason = text, former, "", ""
        self.behind, self.behind_since = "", now

    def text_for(self, wanted: str) -> str:
        """Return the configuration for the ConfigMap when the repository wants this one."""
        return self.previous if wanted and wanted == self.refused else wanted

    def observe(self, wanted: str, active: frozenset[str] | None, now: float) -> bool:
        """Compare the scheduler with its ConfigMap. Return whether to restore the former configuration now: the
        scheduler uses another one, or lacks a plugin that the former one did not request."""
        expected = parts_of(self.text_for(wanted))
        if active is None or not expected:
            return False
        missing, extra = sorted(expected - active), sorted(active - expected)
        if not missing and not extra:
            self.behind = ""
            return False
        if not self.behind:
            self.behind_since = now
        lacks = f"it does not go through {', '.join(missing)}" if missing else ""
        has = f"it goes through {', '.join(extra)}" if extra else ""
        self.behind = " and ".join(filter(None, (lacks, has)))
        is_ignored = bool(extra) or any(part.startswith("action ") for part in missing)
        is_worse = is_ignored or not parts_of(self.previous).issuperset(missing)
        may_return = self.written == wanted and bool(self.previous) and wanted != self.refused
        if not (is_worse and may_return and self.is_late(now)):
            return False
        self.refused, self.reason = wanted, self.behind
        self.behind, self.behind_since = "", now
        return True

    def is_late(self, now: float) -> bool:
        return now - self.behind_since >= self.patience

    def deadlines(self, now: float) -> list[float]:
        """Return when a present difference becomes late."""
        return [self.behind_since + self.patience] if self.behind and not self.is_late(now) else []


CHART_ADDRESS = "http://volcano-scheduler-service.volcano-system:8080/metrics"
"""Where Volcano's Helm chart has the metrics, seen from a pod."""
ANSWER_LIMIT = 16 << 20
_COUNTS = re.compile(r"^volcano_(action|plugin)_scheduling_latency_milliseconds_count\{([^}]*)\} (\S+)", re.MULTILINE)
_CYCLES = re.compile(r"^volcano_e2e_scheduling_latency_milliseconds_count (\S+)", re.MULTILINE)


def default_address(environment: Mapping[str, str]) -> str:
    """Return the default address of the metrics: in a cluster the service of Volcano's chart."""
    return CHART_ADDRESS if "KUBERNETES_SERVICE_HOST" in environment else ""


def read_counts(text: str) -> tuple[float, Mapping[str, float]]:
    """Cycles that have ended, and how often each part ("action allocate") was gone through. Raises ValueError."""
    cycles = _CYCLES.search(text)
    if cycles is None:
        raise ValueError("these are not metrics of Volcano's scheduler")
    counts: Counter[str] = Counter()
    for kind, labels, count in _COUNTS.findall(text):
        if name := re.search(rf'\b{kind}="([^"]*)"', labels):
            counts[f"{kind} {name[1]}"] += float(count)  # type: ignore[assignment]
    return float(cycles[1]), counts


class SchedulerProbe:
    """Reads the metrics; `wake` is called when they show a change. active: the actions and plugins that the scheduler
    runs; None while unknown. problem: why the metrics cannot be read."""

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
        except (OSError, HTTPException, ValueError) as error:
            self.active, self._base = None, None
            self.problem = f"the scheduler's metrics cannot be read: {short_error(error)}"
        if (self.active, self.problem) != before:
            self.wake()
        return self.timings.probe

    def _compare(self, cycles: float, counts: Mapping[str, float]) -> None:
        if self._base is None or cycles < self._base[0]:  # it has begun again
            self.active, self._base = None, (cycles, counts)
        elif cycles >= self._base[0] + self.timings.whole_cycles:
            former = self._base[1]
            self.active = frozenset(part for part, count in counts.items() if count > former.get(part, 0.0))
            self._base = cycles, counts


def _fetch(url: str, seconds: float) -> str:
    with urllib.request.urlopen(url, timeout=seconds) as answer:  # noqa: S310  # the operator's own address
        text: bytes = answer.read(ANSWER_LIMIT)
    return text.decode("utf-8", "replace")
