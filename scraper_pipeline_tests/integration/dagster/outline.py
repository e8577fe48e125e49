"""The definitions as a text that people can read and compare: what there is, and how it hangs together.

`python -m scraper_pipeline_tests.integration.dagster.outline` writes the text that the test compares with.
"""

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import dagster as dg

WRITTEN = Path(__file__).with_name("definitions.txt")


def outline(definitions: dg.Definitions) -> str:
    """Everything that somebody may have come to rely on, a line each."""
    parts = (_assets, _checks, _jobs, _sensors, _schedules, _resources)
    return "\n".join(line for part in parts for line in [*part(definitions), ""])


def _listed(names: Iterable[object]) -> str:
    return ", ".join(sorted(map(str, names))) or "-"


def _assets(definitions: dg.Definitions) -> Iterator[str]:
    graph = definitions.resolve_asset_graph()
    for key in sorted(graph.get_all_asset_keys()):
        node = graph.get(key)
        partitions = node.partitions_def
        days = partitions if isinstance(partitions, dg.TimeWindowPartitionsDefinition) else None
        yield f"asset {key.to_user_string()}"
        yield f"  group    {node.group_name}"
        yield f"  owners   {_listed(node.owners)}"
        yield f"  kinds    {_listed(node.kinds)}"
        yield f"  deps     {_listed(parent.to_user_string() for parent in node.parent_keys)}"
        yield f"  pools    {_listed(node.pools or ())}"
        yield f"  runnable {'yes' if node.is_executable else 'no'}"
        yield f"  described {'yes' if len(node.description or '') > 80 else 'NO'}"
        yield f"  days     {_days(days)}"
        if node.automation_condition is not None:
            yield f"  runs     {node.automation_condition.get_label()}"


def _days(days: dg.TimeWindowPartitionsDefinition | None) -> str:
    if days is None:
        return "-"
    return f"{days.cron_schedule} from {days.start:%Y-%m-%d} in {days.timezone}, {days.end_offset} day ahead"


def _checks(definitions: dg.Definitions) -> Iterator[str]:
    graph = definitions.resolve_asset_graph()
    for key in sorted(graph.asset_check_keys, key=str):
        check = graph.get_check_spec(key)
        kind = "blocking" if check.blocking else "warning"
        yield f"check {key.asset_key.to_user_string()}.{key.name}: {kind}"


def _jobs(definitions: dg.Definitions) -> Iterator[str]:
    for job in sorted(definitions.resolve_all_job_defs(), key=lambda job: job.name):
        if not job.name.startswith("__"):
            nodes = _listed(node.name for node in job.graph.nodes)
            yield f"job {job.name}: {nodes}; tags {dict(sorted(job.tags.items()))}; {job.executor_def.name}"


def _sensors(definitions: dg.Definitions) -> Iterator[str]:
    for sensor in sorted(definitions.sensors or (), key=lambda sensor: sensor.name):
        jobs = _listed(job.name for job in getattr(sensor, "jobs", ())) if sensor.has_jobs else "-"
        status, seconds = sensor.default_status.value.lower(), sensor.minimum_interval_seconds
        yield f"sensor {sensor.name}: {status}, every {seconds} s, asks for {jobs}"


def _schedules(definitions: dg.Definitions) -> Iterator[str]:
    for schedule in sorted(definitions.schedules or (), key=lambda schedule: schedule.name):
        assert isinstance(schedule, dg.ScheduleDefinition)
        status = schedule.default_status.value.lower()
        yield f"schedule {schedule.name}: {status}, {schedule.cron_schedule} {schedule.execution_timezone}"


def _resources(definitions: dg.Definitions) -> Iterator[str]:
    for name, resource in sorted((definitions.resources or {}).items()):
        yield f"resource {name}: {type(resource).__name__}"


if __name__ == "__main__":
    warnings.simplefilter("error", dg.PreviewWarning)
    from scraper_pipeline.definitions import defs

    WRITTEN.write_text(outline(defs))
