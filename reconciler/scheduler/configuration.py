"""Whether the scheduler goes by the configuration that was written: decisions on data, no IO."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

FORMAT_VERSION = 1
_KEPT = ("written", "previous", "refused", "reason")
"""What outlives a process."""


@lru_cache(maxsize=8)
def parts_of(text: str) -> frozenset[str]:
    """The actions and plugins of a configuration, as the scheduler counts them; none where it cannot be read."""
    try:
        conf = YAML(typ="safe", pure=True).load(text)
        actions = [f"action {name.strip()}" for name in str(conf["actions"]).split(",") if name.strip()]
        plugins = [f"plugin {plugin['name']}" for tier in conf["tiers"] for plugin in tier.get("plugins") or ()]
    except (YAMLError, KeyError, TypeError, AttributeError):
        return frozenset()
    return frozenset((*actions, *plugins))


@dataclass(slots=True)
class SchedulerMemory:
    """What was written and what came of it.

    written, previous: the configuration that was written last, and the one before it. refused: one that the scheduler
    did not take, for which the previous one stands again, and `reason` why. behind: in what the scheduler differs from
    what stands there, since `behind_since` (on the clock). stored: as the cluster holds it, empty for nothing.
    patience: seconds in which the scheduler has to take a new configuration.
    """

    patience: float
    written: str = ""
    previous: str = ""
    refused: str = ""
    reason: str = ""
    behind: str = ""
    behind_since: float = 0.0
    stored: str = ""

    @property
    def is_stored(self) -> bool:
        """Whether the next process will know what this one does."""
        return self.as_json() == (self.stored or SchedulerMemory(self.patience).as_json())

    def note_stored(self) -> None:
        self.stored = self.as_json()

    def record_write(self, text: str, former: str, now: float) -> None:
        """Note that this text has taken the former one's place."""
        self.written, self.previous, self.refused, self.reason = text, former, "", ""
        self.behind, self.behind_since = "", now

    def text_for(self, wanted: str) -> str:
        """The text that is to stand in the ConfigMap when the repository wants this one."""
        return self.previous if wanted and wanted == self.refused else wanted

    def observe(self, wanted: str, active: frozenset[str] | None, now: float) -> bool:
        """Compare what the scheduler does with what stands there. Whether the former configuration is to return now:
        where the scheduler goes by another one, or lacks a plugin that the former one did not ask for."""
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
        """When what is behind now is late."""
        return [self.behind_since + self.patience] if self.behind and not self.is_late(now) else []

    def as_json(self) -> str:
        kept = {name: getattr(self, name) for name in _KEPT}
        return json.dumps({"version": FORMAT_VERSION, **kept}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str, patience: float) -> SchedulerMemory:
        """What a former process knew. Raises ValueError or TypeError for what it did not write."""
        data: Any = json.loads(text)
        if not isinstance(data, dict) or data.pop("version", None) != FORMAT_VERSION:
            raise ValueError("what is known of the scheduler's configuration is of another version")
        written, previous, refused, reason = (str(data.get(name) or "") for name in _KEPT)
        return cls(patience, written, previous, refused, reason, stored=text)
