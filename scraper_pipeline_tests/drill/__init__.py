"""A drill of the production topology: the definition that is shipped, started for real on one machine, and maltreated.

    make drill                                              # `rolling`, 50,000 targets on five days
    make drill ARGS="--targets 500 --days 2"                # the same, in a few minutes
    make drill ARGS="--scenario hosts --targets 2000"       # needs root, for network namespaces

Postgres with the roles of `deploy/postgres`, the processes of `deploy/systemd` as their units start them, with the
files of `deploy/env`, `deploy/dagster.yaml` and `deploy/workspace.yaml`, two receivers behind nginx with
`deploy/nginx.conf`, and the sandbox under the steady faults of the chaos runs. A seed decides the targets, what is
struck in which order, and how.

The exit code is 0 only if every target has ended, every day is green in Dagster, no page is lost, stored twice or paid
twice, and `scraper-pipeline audit` has nothing to say.
"""
