"""What the assets show of a day: the same keys on every materialisation, numbers as numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from scraper_pipeline.accounts import Accounts
from scraper_pipeline.assets.pictures import latency_picture, progress_picture
from scraper_pipeline.ledger import Ledger, Scope
from scraper_pipeline.lifecycle import PagesLeft, pages_left

Metadata = Mapping[str, Any]


def preview(
    rows: Sequence[Mapping[str, Any]],
) -> dg.TableMetadataValue | dg.MarkdownMetadataValue:
    """A table of a few rows; content is never in them."""
    if not rows:
        return dg.MetadataValue.md("*no rows*")
    names = list(rows[0])
    records = [dg.TableRecord({name: _cell(row[name]) for name in names}) for row in rows]
    schema = dg.TableSchema([dg.TableColumn(name, _column_type(rows, name)) for name in names])
    return dg.MetadataValue.table(records, schema)


def _cell(value: Any) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= 200 else text[:199] + "…"


def _column_type(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    value = next((row[name] for row in rows if row[name] is not None), "")
    return "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"


def checked_days(context: dg.AssetCheckExecutionContext, ledger: Ledger) -> list[str]:
    """The days of the run, or the newest one in the ledger where a check is run by itself."""
    if context.run.tags.keys() & {"dagster/partition", "dagster/asset_partition_range_start"}:
        return list(context.partition_keys)
    return [revision.partition_key for revision in ledger.progress.revisions(limit=1)]


def progress_figures(ledger: Ledger, day: str) -> Metadata:
    """How the day's targets are spread over their states, and the ledger's revision that this describes."""
    revision = ledger.progress.revision(day)
    progress = ledger.progress.of(day)
    return {
        "targets": progress.targets,
        "planned": progress.planned,
        "sending": progress.sending,
        "accepted": progress.accepted,
        "stored": progress.stored,
        "parked": progress.dead,
        "in_flight": progress.in_flight,
        "ledger_revision": revision,
    }


def submission_figures(ledger: Ledger, day: str, left: Mapping[str, int]) -> Metadata:
    """The day's progress, its newest submissions, and what the page limits leave."""
    return {
        **progress_figures(ledger, day),
        "resubmitted": ledger.progress.resubmissions(day),
        **left,
        "preview": preview(ledger.progress.submissions_preview(day)),
    }


def limit_figures(accounts: Accounts) -> dict[str, int]:
    """What the page limits of every account leave."""
    shown: dict[str, int] = {}
    for account in accounts:
        shown |= spending_figures(pages_left(account.ledger, account.policy()), account.name)
    return shown


def spending_figures(left: PagesLeft, account: str) -> dict[str, int]:
    """What each page limit leaves, those of further accounts under their names; nothing of one that is not set."""
    ending = "" if account == Scope().account else f"_{account}"
    shown = {"pages_left_today": left.today, "pages_left_this_month": left.this_month}
    return {f"{name}{ending}": pages for name, pages in shown.items() if pages is not None}


def news_figures(ledger: Ledger, day: str) -> Metadata:
    """Which channel brought the news of the day's jobs first, and how many seconds after their completion."""
    shown: dict[str, Any] = {}
    channels = ledger.channels.of(day)
    jobs = sum(figures.first for figures in channels.values())
    for channel, figures in channels.items():
        shown[f"first_by_{channel}"] = figures.first
        shown[f"first_by_{channel}_share"] = round(figures.first / jobs, 4) if jobs else 0.0
        shown[f"{channel}_latency_p50_seconds"] = round(figures.latency_p50, 3)
        shown[f"{channel}_latency_p95_seconds"] = round(figures.latency_p95, 3)
    return shown


def result_figures(ledger: Ledger, day: str) -> Metadata:
    """The day's progress, and what its stored pages are like; latency runs from acceptance to storage, in seconds."""
    figures, progress = ledger.progress.figures(day), progress_figures(ledger, day)
    return {
        **progress,
        "pages": figures.pages,
        "empty_pages": figures.empty,
        "pages_paid": figures.tokens_charged,
        "latency_p50_seconds": round(figures.latency_p50, 3),
        "latency_p95_seconds": round(figures.latency_p95, 3),
        "oldest_open_seconds": round(ledger.progress.oldest_open_seconds(day), 1),
        **news_figures(ledger, day),
        "latency": latency_picture(figures.latencies),
        "day_so_far": progress_picture(figures.stored_after, progress["targets"]),
        "preview": preview(ledger.progress.results_preview(day)),
    }


def letter_figures(ledger: Ledger, day: str) -> Metadata:
    """The day's progress, and why its parked targets were parked; of each reason the newest letter is shown."""
    by_code = ledger.progress.letters_by_code(day)
    top = [
        {"code": one.code, "count": one.count, "example_url": one.url, "message": one.message}
        for one in ledger.letters.reasons(day)
    ]
    return {
        **progress_figures(ledger, day),
        "discarded": ledger.letters.discarded(day),
        "reasons": dg.MetadataValue.json(by_code),
        "top_reasons": preview(top),
        "preview": preview(ledger.progress.letters_preview(day)),
    }


def materialised_revision(instance: dg.DagsterInstance, asset: str, day: str) -> int:
    """The ledger's revision that the newest materialisation of the day shows; 0 if there is none."""
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[day]), limit=1
    ).records
    materialization = records[0].asset_materialization if records else None
    shown = materialization.metadata.get("ledger_revision") if materialization else None
    return int(str(shown.value)) if shown is not None else 0
