"""One run of one of the pipeline's jobs, in a process of its own, as Dagster's launcher would have it.

`python -m benchmarks.dagster_run JOB DAY` runs the job on the instance of DAGSTER_HOME and prints, as JSON, the seconds
that the run took once the process was up, and the process's peak memory in MB.
"""

import json
import logging
import resource
import sys
import time

import dagster as dg

from scraper_pipeline.definitions import defs


def main() -> None:
    job_name, day = sys.argv[1:]
    logging.disable(logging.INFO)
    with dg.DagsterInstance.get() as instance:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        result = defs.get_job_def(job_name).execute_in_process(instance=instance, partition_key=day)
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures = {"seconds": seconds, "peak_mb": peak / 1024, "before_mb": before / 1024}
    print(json.dumps({"success": result.success, **figures}))


if __name__ == "__main__":
    main()
