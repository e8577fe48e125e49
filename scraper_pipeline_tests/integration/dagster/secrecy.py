"""Everything that a Dagster instance keeps and shows of its runs, as one text to be searched."""

import dagster as dg


def everything_said(instance: dg.DagsterInstance) -> str:
    """Events with their metadata, log lines, tags and configuration of all runs."""
    said = []
    for run in instance.get_runs():
        said.append(f"{run.tags} {run.run_config}")
        said.extend(entry.to_json() for entry in instance.all_logs(run.run_id))
    return "\n".join(said)
