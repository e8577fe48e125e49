"""The command ``export``: the pages of a day as a file, for whoever has no Dagster at hand."""

import sys
from datetime import date
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

import click

from scraper_pipeline.accounts import open_ledger
from scraper_pipeline.cli.common import (
    clear_errors,
    counted,
    day_key,
    day_option,
    json_option,
    print_json,
    progress_bars,
)
from scraper_pipeline.publishing import (
    Export,
    ExportFormat,
    PublishingError,
    Selection,
    export_file,
    export_stream,
    open_place,
)
from scraper_pipeline.settings import load_settings

_STREAM = "-"
_FORMATS = {
    ".parquet": ExportFormat.PARQUET,
    ".csv": ExportFormat.CSV,
    ".jsonl": ExportFormat.JSONL,
    ".ndjson": ExportFormat.JSONL,
}


@click.command()
@day_option
@click.option(
    "--to",
    metavar="FILE",
    help="A path, a URL such as s3://bucket/day.parquet, or - for standard output; pages-DAY.FORMAT by default.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice([str(one) for one in ExportFormat]),
    help="What FILE's name ends with by default, or parquet without FILE.",
)
@click.option("--columns", help="Names with commas between them, such as url,markdown,label_topic; else all.")
@json_option
@clear_errors
def export(
    day: date | None, to: str | None, format_name: str | None, columns: str | None, as_json: bool
) -> None:
    """Write the stored pages of a day to a file: what the asset `pages` publishes, as it is at the moment."""
    settings = load_settings()
    key, file_format = day_key(settings, day), ExportFormat(format_name) if format_name else _format_of(to)
    target = to or f"pages-{key}.{file_format}"
    if target == _STREAM and (as_json or file_format is ExportFormat.PARQUET):
        raise click.UsageError(
            "standard output takes csv or jsonl (--format), and no report beside it (--json)"
        )
    with open_ledger(settings) as ledger, progress_bars() as bars:
        if not ledger.progress.revision(key):
            raise PublishingError(f"Nothing was planned for {key}: see scraper-pipeline status for what was")
        in_flight, bar = ledger.progress.of(key).in_flight, bars.add_task(key, total=None)
        selection = Selection(
            key, _names(columns), lambda done, total: bars.update(bar, completed=done, total=total)
        )
        if target == _STREAM:
            written, size = export_stream(ledger, selection, file_format, _standard_output()), None
        else:
            base, name = _split(target)
            place = open_place(base)
            written, size = export_file(ledger, selection, file_format, place, name), place.size(name)
    if as_json:
        print_json(_report(written, target, file_format, size, in_flight))
        return
    click.echo(
        f"{counted(written.rows, 'page')} of {key}, {counted(len(written.columns), 'column')}: {target}",
        err=True,
    )
    if in_flight:
        click.echo(f"Still in flight, and not in it: {counted(in_flight, 'target')} of {key}.", err=True)


def _format_of(to: str | None) -> ExportFormat:
    if to is None or to == _STREAM:
        return ExportFormat.PARQUET
    suffix = Path(to).suffix.lower()
    if suffix not in _FORMATS:
        raise click.UsageError(f"--format is needed: {to} ends with none of {', '.join(_FORMATS)}")
    return _FORMATS[suffix]


def _names(columns: str | None) -> list[str] | None:
    names = None if columns is None else [name for part in columns.split(",") if (name := part.strip())]
    if names == []:
        raise click.UsageError("--columns names no column")
    return names


def _standard_output() -> TextIO:
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # pages are in many scripts, whatever the locale
    return sys.stdout


def _split(target: str) -> tuple[str, str]:
    if "://" not in target:
        return str(Path(target).parent), Path(target).name
    base, _, name = target.rpartition("/")
    return base, name


def _report(
    written: Export, target: str, file_format: ExportFormat, size: int | None, in_flight: int
) -> dict[str, object]:
    return {
        "day": written.day,
        "file": target,
        "format": str(file_format),
        "rows": written.rows,
        "bytes": size,
        "columns": list(written.columns),
        "in_flight": in_flight,
    }
