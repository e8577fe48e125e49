"""A whole pipeline under faults, kills and outages that a seed decides, and an audit of what is left of it.

    make chaos                                # a few minutes on SQLite
    make chaos ARGS="--database postgres --jobs 10000 --kills 1000 --minutes 25"
    make chaos ARGS="--form dagster --jobs 300 --kills 20 --minutes 15"
    make chaos ARGS="--seed 17"               # that run again

In the form `parts`, workers repeat the pipeline's own functions and are killed between any two durable steps of them;
in the form `dagster` the daemon, its code servers and its runs are killed at any time. A run prints its seed and a
digest of its plan first. The plan is all that chance decides: the targets, how and when each process dies, and at which
number of kills the service's faults change and the database goes away. The same seed with the same options is the same
plan, and the sandbox draws each of its faults from the seed and the URL. What the machine's own timing decides differs,
so a failure that depends on it may take several runs of its seed to come back; ``--keep`` saves what a run leaves.

The exit code is 0 only if every target ended, none is lost, none is stored twice, and none was paid twice outside the
windows that the design names. Otherwise the targets concerned are printed with the rule that each one breaks.
"""
