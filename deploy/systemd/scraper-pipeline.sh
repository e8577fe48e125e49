#!/bin/sh
# /usr/local/sbin/scraper-pipeline, for root: the command as the services' user, with their settings.
set -eu
umask 077
set -a
HOME=/var/lib/scraper-pipeline
. /etc/scraper-pipeline/dagster.env
. /etc/scraper-pipeline/pipeline.env
set +a
cd "$HOME"
exec setpriv --reuid=scraper --regid=scraper --init-groups --no-new-privs \
    /opt/scraper-pipeline/bin/scraper-pipeline "$@"
