"""What Dagster's own records say of runs that have ended and of checks that were evaluated."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from scraper_pipeline.alerts.messages import Alert, FailedCheck, What, one_line
from scraper_pipeline.settings import Settings

FAILED, SUCCEEDED = dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_SUCCESS
# A sensor reports it: it belongs to no run.
_RUNLESS = dg.AssetCheckKey(dg.AssetKey("delivery_log"), "webhooks_deliver")
_MOST_ENDS = 50


@dataclass(frozen=True)
class RunEnd:
    """A run that has ended, well or badly; ``storage_id`` orders the ends of one ``kind``."""

    kind: dg.DagsterEventType
    storage_id: int
    at: datetime
    run: dg.DagsterRun
    message: str


@dataclass(frozen=True)
class Checked:
    """What the checks of one run, or of none, have come to, by a name that stays the same from run to run."""

    at: datetime
    results: Mapping[str, FailedCheck | None]


def newest_end(instance: dg.DagsterInstance, kind: dg.DagsterEventType) -> int:
    """The place of the newest end of a kind; 0 before there is any."""
    records = instance.fetch_run_status_changes(kind, limit=1).records
    return records[0].storage_id if records else 0


def ends_after(
    instance: dg.DagsterInstance, kind: dg.DagsterEventType, storage_id: int, oldest: datetime
) -> list[RunEnd]:
    """The ends of a kind that follow a place, oldest first, without those before ``oldest``."""
    records = instance.fetch_run_status_changes(
        dg.RunStatusChangeRecordsFilter(
            event_type=kind,  # type: ignore[arg-type]
            after_storage_id=storage_id,
            after_timestamp=oldest.timestamp(),
        ),
        limit=_MOST_ENDS,
        ascending=True,
    ).records
    run_ids = sorted({record.event_log_entry.run_id for record in records})
    known = instance.get_run_records(dg.RunsFilter(run_ids=run_ids)) if run_ids else ()
    runs = {record.dagster_run.run_id: record.dagster_run for record in known}
    return [
        RunEnd(
            kind,
            record.storage_id,
            datetime.fromtimestamp(record.timestamp, UTC),
            runs[record.event_log_entry.run_id],
            record.event_log_entry.user_message or "",
        )
        for record in records
        if record.event_log_entry.run_id in runs
    ]


def checks_of_run(instance: dg.DagsterInstance, settings: Settings, end: RunEnd) -> Checked:
    """The checks of a run. One that was evaluated several times has failed if it failed once."""
    records = instance.get_records_for_run(
        end.run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION
    ).records
    results: dict[str, FailedCheck | None] = {}
    for record in records:
        event = record.event_log_entry.dagster_event
        if event is None:
            continue
        evaluation = event.asset_check_evaluation_data
        name = _name_of(evaluation, partition_of(end.run))
        results[name] = _failed(evaluation, settings) or results.get(name)
    return Checked(end.at, results)


def checks_without_run(instance: dg.DagsterInstance, settings: Settings) -> Checked | None:
    """The newest evaluation of the check that a sensor reports."""
    record = instance.get_latest_asset_check_evaluation_record(_RUNLESS)
    evaluation = record.evaluation if record and not record.run_id else None
    if record is None or record.event is None or evaluation is None:
        return None
    at = datetime.fromtimestamp(record.event.timestamp, UTC)
    return Checked(at, {_name_of(evaluation, None): _failed(evaluation, settings)})


def alert_of_run(
    instance: dg.DagsterInstance, settings: Settings, end: RunEnd, checks: Iterable[FailedCheck]
) -> Alert | None:
    """What is to be told of a run that has ended, with these of its checks; None if that is nothing."""
    checks = tuple(checks)
    if end.kind is not FAILED and not checks:
        return None
    said = [_reason(instance, end)] if end.kind is FAILED else []
    return Alert(
        what=What.RUN_FAILED if end.kind is FAILED else What.CHECKS_FAILED,
        when=end.at,
        message=one_line("; ".join([*said, *map(str, checks)]), settings),
        run_id=end.run.run_id,
        job=end.run.job_name,
        partition=partition_of(end.run),
        checks=checks,
        link=f"{settings.dagster_url}/runs/{end.run.run_id}" if settings.dagster_url else None,
    )


def alert_without_run(settings: Settings, at: datetime, checks: Iterable[FailedCheck]) -> Alert | None:
    """What is to be told of checks that belong to no run; None if that is nothing."""
    checks = tuple(checks)
    if not checks:
        return None
    link = f"{settings.dagster_url}/assets/{checks[0].asset}?view=checks" if settings.dagster_url else None
    message = one_line("; ".join(map(str, checks)), settings)
    return Alert(What.CHECKS_FAILED, at, message, checks=checks, link=link)


def partition_of(run: dg.DagsterRun) -> str | None:
    """The run's partition, or the first and the last of several."""
    first = run.tags.get("dagster/asset_partition_range_start")
    last = run.tags.get("dagster/asset_partition_range_end")
    return run.tags.get("dagster/partition") or (f"{first} to {last}" if first and last else None)


def _name_of(evaluation: dg.AssetCheckEvaluation, partition: str | None) -> str:
    return f"{evaluation.asset_key.to_user_string()}.{evaluation.check_name}" + (
        f" of {partition}" if partition else ""
    )


def _failed(evaluation: dg.AssetCheckEvaluation, settings: Settings) -> FailedCheck | None:
    if evaluation.passed:
        return None
    numbers = {
        name: value.value
        for name, value in evaluation.metadata.items()
        if isinstance(value, dg.IntMetadataValue | dg.FloatMetadataValue)
    }
    said = evaluation.description or ", ".join(f"{name} {number:g}" for name, number in numbers.items())
    return FailedCheck(
        evaluation.asset_key.to_user_string(),
        evaluation.check_name,
        evaluation.severity.value,
        one_line(said, settings),
    )


def _reason(instance: dg.DagsterInstance, end: RunEnd) -> str:
    """Why a run failed: in our own words where there are some, or else which kind of error it was.

    The text of any other error may quote what it met, a page's content for one, and does not leave the house.
    """
    records = instance.get_records_for_run(
        end.run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE, limit=1
    ).records
    event = records[0].event_log_entry.dagster_event if records else None
    if event is None:
        return end.message or "The run failed; Dagster gives no reason."
    failure = event.step_failure_data
    if failure.user_failure_data and failure.user_failure_data.description:
        return failure.user_failure_data.description
    error = failure.error
    while error is not None and error.cause is not None:
        error = error.cause
    kind = error.cls_name if error and error.cls_name else "an error"
    return f"{kind} in {event.step_key}; the run's log has the rest."
