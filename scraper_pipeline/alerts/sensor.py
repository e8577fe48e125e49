"""The sensor ``alert_sensor``: each failed run is told once, and each check when it begins to fail."""

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic

import dagster as dg

from scraper_pipeline.alerts.channels import AlertChannel, AlertNotSent, configured_channels
from scraper_pipeline.alerts.findings import (
    FAILED,
    SUCCEEDED,
    Checked,
    RunEnd,
    alert_of_run,
    alert_without_run,
    checks_of_run,
    checks_without_run,
    ends_after,
    newest_end,
)
from scraper_pipeline.alerts.messages import Alert, FailedCheck
from scraper_pipeline.settings import Settings, SettingsError, load_settings

MOST_AGE = timedelta(hours=1)  # of what is told: an alert that can't be delivered is tried for so long
REMIND_AFTER = timedelta(days=1)  # a check that goes on failing is told again
TICK_SECONDS = 20.0  # in which a tick begins to send; Dagster's own limit is 60


@dataclass
class _Position:
    """How far one channel is: the newest ends that it has seen, and the checks whose failure it was told, since when.

    Kept in the sensor's cursor. It is no more than a memory of what was told: without it, alerts begin anew.
    """

    failed: int
    succeeded: int
    runless: float
    standing: dict[str, float] = field(default_factory=dict)

    def news(self, checked: Checked) -> list[FailedCheck]:
        """The checks of these that fail now and did not before, or whose failure was told long ago."""
        long_ago = (checked.at - REMIND_AFTER).timestamp()
        return [
            failed
            for name, failed in checked.results.items()
            if failed and self.standing.get(name, 0) < long_ago
        ]

    def note(self, checked: Checked) -> None:
        """Remember what was told of these checks."""
        now, long_ago = checked.at.timestamp(), (checked.at - REMIND_AFTER).timestamp()
        for name, failed in checked.results.items():
            if not failed:
                self.standing.pop(name, None)
            elif self.standing.get(name, 0) < long_ago:
                self.standing[name] = now
        self.standing = {name: since for name, since in self.standing.items() if since >= long_ago}

    def move_to(self, end: RunEnd) -> None:
        if end.kind is FAILED:
            self.failed = end.storage_id
        else:
            self.succeeded = end.storage_id


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Posts failed runs and failed checks to SCRAPER_ALERT_URL and SCRAPER_SLACK_WEBHOOK_URL; idle while neither is "
        "set. A run is told once, a check when it begins to fail and then once a day. When a receiver does not take an "
        "alert the ticks fail, and it is sent again for up to an hour."
    ),
)
def alert_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    try:
        settings = load_settings()
    except SettingsError as error:
        raise dg.Failure(str(error)) from None
    channels = list(configured_channels(settings))
    if not channels:
        return dg.SkipReason(
            "Neither SCRAPER_ALERT_URL nor SCRAPER_SLACK_WEBHOOK_URL is set: nothing is posted."
        )
    known, positions = _read_cursor(context.cursor), {}
    until, has_moved = monotonic() + TICK_SECONDS, False
    told: list[Alert] = []
    problems: list[str] = []
    for channel in channels:
        position = positions[channel.name] = known.get(channel.name) or _begin(context.instance)
        before = None if channel.name not in known else asdict(position)
        try:
            _tell(context, settings, channel, position, told, until)
        except AlertNotSent as error:
            problems.append(str(error))
        has_moved |= asdict(position) != before
    if problems and not has_moved:
        raise dg.Failure(" ".join(problems))
    for problem in problems:  # at the next tick it will be the first, and fail it
        context.log.error(problem)
    return dg.SensorResult(
        cursor=json.dumps({name: asdict(one) for name, one in positions.items()}),
        skip_reason=f"{len(told)} alerts were posted." if told else "Nothing has failed since.",
    )


def _tell(
    context: dg.SensorEvaluationContext,
    settings: Settings,
    channel: AlertChannel,
    position: _Position,
    told: list[Alert],
    until: float,
) -> None:
    """Post what is new to a channel, whose position moves with each. Raises AlertNotSent at the first that fails."""
    instance, oldest = context.instance, datetime.now(UTC) - MOST_AGE
    ends = [
        *ends_after(instance, FAILED, position.failed, oldest),
        *ends_after(instance, SUCCEEDED, position.succeeded, oldest),
    ]
    for end in sorted(ends, key=lambda end: end.at):
        if monotonic() > until:
            return
        if _is_ours(context, end.run):
            checked = checks_of_run(instance, settings, end)
            failed = filter(None, checked.results.values()) if end.kind is FAILED else position.news(checked)
            _post(channel, alert_of_run(instance, settings, end, failed), told)
            position.note(checked)
        position.move_to(end)
    newest = checks_without_run(instance, settings)
    if newest is not None and newest.at.timestamp() > position.runless:
        _post(channel, alert_without_run(settings, newest.at, position.news(newest)), told)
        position.note(newest)
        position.runless = newest.at.timestamp()


def _post(channel: AlertChannel, alert: Alert | None, told: list[Alert]) -> None:
    if alert is not None:
        channel.post(alert)
        told.append(alert)


def _begin(instance: dg.DagsterInstance) -> _Position:
    """From here on: what happened before somebody wanted to know is not told."""
    return _Position(
        newest_end(instance, FAILED), newest_end(instance, SUCCEEDED), datetime.now(UTC).timestamp()
    )


def _read_cursor(cursor: str | None) -> dict[str, _Position]:
    """Each channel's position; one that can't be read begins anew."""
    try:
        return {name: _Position(**position) for name, position in json.loads(cursor or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def _is_ours(context: dg.SensorEvaluationContext, run: dg.DagsterRun) -> bool:
    """Whether the run is of this code location; Dagster may serve others as well."""
    origin = run.remote_job_origin.repository_origin if run.remote_job_origin else None
    place = context.code_location_origin
    return (origin.repository_name if origin else None) == context.repository_name and (
        origin.code_location_origin.location_name if origin else None
    ) == (place.location_name if place else None)
