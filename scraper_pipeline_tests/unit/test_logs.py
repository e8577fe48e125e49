"""One JSON object a line, also of what Dagster logs of a run."""

import json
import logging
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml
from opentelemetry import trace

from scraper_pipeline.logs import JsonFormatter
from scraper_pipeline.settings import project_folder


def _told(record: logging.LogRecord) -> dict[str, str]:
    line = JsonFormatter().format(record)
    assert "\n" not in line
    told: dict[str, str] = json.loads(line)
    return told


def test_a_line_tells_when_who_and_what() -> None:
    record = logging.LogRecord("a.logger", logging.WARNING, __file__, 1, "two\nlines of %s", ("it",), None)
    record.created = 1772366400.5
    assert _told(record) == {
        "time": "2026-03-01T12:00:00.500+00:00",
        "level": "WARNING",
        "logger": "a.logger",
        "message": "two\nlines of it",
    }


def test_an_exception_is_told_with_its_traceback() -> None:
    try:
        raise ValueError("of no use")
    except ValueError:
        record = logging.LogRecord("a", logging.ERROR, __file__, 1, "It failed.", (), sys.exc_info())
    assert "ValueError: of no use" in _told(record)["error"]


@pytest.mark.filterwarnings("ignore:.*yaml-defined logging")
def test_a_run_is_told_by_its_id_job_step_and_day(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As the commented part of deploy/dagster.yaml has it."""

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["2026-01-31"]))
    def some_pages(context: dg.AssetExecutionContext) -> None:
        context.log.warning("Something is to be told.")

    shipped = (project_folder() / "deploy" / "dagster.yaml").read_text("utf-8")
    _, _, commented = shipped.partition("# python_logs:")
    part = [line.removeprefix("#").removeprefix(" ") for line in ("python_logs:" + commented).splitlines()]
    overrides = yaml.safe_load("\n".join(part[: part.index("")] if "" in part else part))
    overrides["python_logs"]["dagster_handler_config"]["handlers"]["json"]["level"] = "DEBUG"  # as events are
    with dg.instance_for_test(temp_dir=str(tmp_path), overrides=overrides) as instance:
        assert dg.materialize([some_pages], partition_key="2026-01-31", instance=instance).success
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith("{")]
    [told] = [one for one in map(json.loads, lines) if one["message"] == "Something is to be told."]
    assert told["level"] == "WARNING"
    assert told["day"] == "2026-01-31"
    assert told["step_key"] == "some_pages"
    assert told["run_id"]
    assert {one.get("event") for one in map(json.loads, lines)} >= {"STEP_START", "STEP_SUCCESS"}


def test_what_is_traced_is_told_with_its_ids() -> None:
    record = logging.LogRecord("a", logging.INFO, __file__, 1, "Within a span.", (), None)
    context = trace.SpanContext(trace_id=0xABC, span_id=0xDEF, is_remote=False)
    with trace.use_span(trace.NonRecordingSpan(context)):
        told = _told(record)
    assert (told["trace_id"], told["span_id"]) == ("abc".zfill(32), "def".zfill(16))
