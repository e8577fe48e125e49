"""Whether Dagster's daemon is alive, and what of the project runs by itself."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import dagster as dg

from scraper_pipeline.checkup.findings import Finding, Subject

_DAEMON, _AUTOMATION = Subject("daemon"), Subject("automation")
_FRESH_SECONDS = 300.0  # Dagster's own half hour is too long for a pump that looks every few seconds
_START = "Start it: `make dev`, or `dagster-daemon run` in production."


@dataclass(frozen=True)
class Heartbeat:
    """The last sign of a part of the daemon: when it came (seconds of the epoch), and whether it told of errors."""

    at: float
    has_errors: bool = False


@dataclass(frozen=True)
class Automatic:
    """A sensor or schedule: whether the code switches it on, and what the operator chose (None: nothing)."""

    name: str
    is_on_by_default: bool
    is_switched_on: bool | None = None

    @property
    def is_on(self) -> bool:
        return self.is_on_by_default if self.is_switched_on is None else self.is_switched_on


def declared_automation() -> list[Automatic]:
    """The project's sensors and schedules. The settings have to be usable: its definitions are made from them."""
    from scraper_pipeline.definitions import defs

    sensors = [
        Automatic(one.name, one.default_status is dg.DefaultSensorStatus.RUNNING)
        for one in defs.sensors or ()
        if isinstance(one, dg.SensorDefinition)
    ]
    schedules = [
        Automatic(one.name, one.default_status is dg.DefaultScheduleStatus.RUNNING)
        for one in defs.schedules or ()
        if isinstance(one, dg.ScheduleDefinition)
    ]
    return sensors + schedules


def check_automation(instance: dg.DagsterInstance, declared: Sequence[Automatic]) -> list[Finding]:
    """Findings about the daemon of an instance, and about the sensors and schedules that the code declares."""
    heartbeats = {
        kind: Heartbeat(beat.timestamp, bool(beat.errors)) if (beat := status.last_heartbeat) else None
        for kind, status in instance.get_daemon_statuses().items()
    }
    # What nobody has ever switched has no state here, or one that says that the code decides.
    chosen = {
        state.instigator_name: {"RUNNING": True, "STOPPED": False}.get(state.status.name)
        for state in instance.all_instigator_state()
    }
    found = [replace(one, is_switched_on=chosen.get(one.name)) for one in declared]
    return [judge_daemon(heartbeats, time.time()), *([judge_automation(found)] if found else [])]


def judge_daemon(heartbeats: Mapping[str, Heartbeat | None], now: float) -> Finding:
    """Whether each part that this instance needs has given a sign lately."""
    seen = {kind: beat for kind, beat in heartbeats.items() if beat is not None}
    if not seen:
        return _DAEMON.warning("Dagster's daemon has never run here: nothing happens by itself.", _START)
    stale = [kind for kind in heartbeats if kind not in seen or now - seen[kind].at > _FRESH_SECONDS]
    if len(stale) == len(heartbeats):
        last = max(beat.at for beat in seen.values())
        return _DAEMON.problem(f"Dagster's daemon gave its last sign {_ago(now - last)} ago.", _START)
    if stale:
        return _DAEMON.problem(
            f"Parts of Dagster's daemon give no sign: {_named(stale)}.",
            "Start it again, and look at its log.",
        )
    if failing := [kind for kind, beat in seen.items() if beat.has_errors]:
        return _DAEMON.warning(
            f"Parts of Dagster's daemon report errors: {_named(failing)}.",
            "See *Deployment*, *Daemons* in the UI.",
        )
    return _DAEMON.ok("Dagster's daemon runs.")


def judge_automation(found: Sequence[Automatic]) -> Finding:
    """Whether everything is on that the code switches on."""
    if stopped := [one.name for one in found if one.is_on_by_default and not one.is_on]:
        return _AUTOMATION.warning(
            f"Somebody has switched off {', '.join(stopped)}.",
            "Switch on what is missed, under *Automation* in the UI.",
        )
    off = [one.name for one in found if not one.is_on]
    said = f"{', '.join(one.name for one in found if one.is_on)} are on"
    return _AUTOMATION.ok(
        f"{said}; {', '.join(off)} are off until you switch them on." if off else f"{said}."
    )


def _ago(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds < 2 * 3600 else f"{seconds / 3600:.0f} hours"


def _named(kinds: list[str]) -> str:
    return ", ".join(kind.lower().replace("_", " ") for kind in kinds)
