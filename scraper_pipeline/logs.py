"""Logs for programs: one JSON object a line, of the receiver, the metrics and of Dagster's runs."""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from opentelemetry import trace

_OF_A_RUN = ("run_id", "job_name", "step_key")


class JsonFormatter(logging.Formatter):
    """``time`` (UTC, ISO 8601), ``level``, ``logger``, ``message``; of a run also its id, job, step, days and event.
    Of what is traced also ``trace_id`` and ``span_id``.

    ``deploy/dagster.yaml`` tells Dagster of it. ``error`` has the traceback of an exception that was logged.
    """

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
        }
        of_run = getattr(record, "dagster_meta", None)
        if of_run is None:
            told["message"] = record.getMessage()
        else:
            told["message"] = of_run["orig_message"]
            told |= {name: of_run[name] for name in _OF_A_RUN if of_run[name] is not None}
            tags = of_run["job_tags"]
            if day := tags.get("dagster/partition"):
                told["day"] = day
            if (event := of_run["dagster_event"]) is not None:
                told["event"] = event.event_type_value
        if (span := trace.get_current_span().get_span_context()).is_valid:
            told |= {"trace_id": f"{span.trace_id:032x}", "span_id": f"{span.span_id:016x}"}
        if record.exc_info and record.exc_info[0] is not None:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


def log_as_json() -> None:
    """Have everything that is logged in this process written to stderr in this form."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
