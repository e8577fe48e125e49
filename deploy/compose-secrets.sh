#!/bin/sh
# Makes deploy/secrets for compose.yaml, as root, once: passwords are drawn, the API key is read from standard input.
#     sudo deploy/compose-secrets.sh < file-with-the-key
# A secret is a file that its container's user alone can read: 10001 is that of our image, 999 that of postgres.
set -eu
umask 077
cd "$(dirname "$0")"
[ ! -e secrets ] || { echo "deploy/secrets is there already: nothing was changed." >&2; exit 1; }
key=$(cat)
[ -n "$key" ] || { echo "The API key is read from standard input, which was empty: nothing was made." >&2; exit 1; }
mkdir -p secrets/tls
draw() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
superuser=$(draw) owner=$(draw) pipeline=$(draw) receiver=$(draw) metrics=$(draw) dagster=$(draw)
printf %s "$key" > secrets/api_key
printf %s "$dagster" > secrets/dagster_postgres_password
printf %s "$superuser" > secrets/postgres_password
printf 'postgresql://scraper_owner:%s@postgres/ledger' "$owner" > secrets/owner_ledger_url
printf 'postgresql://scraper_pipeline:%s@postgres/ledger' "$pipeline" > secrets/pipeline_ledger_url
printf 'postgresql://scraper_receiver:%s@postgres/ledger' "$receiver" > secrets/receiver_ledger_url
printf 'postgresql://scraper_metrics:%s@postgres/ledger' "$metrics" > secrets/metrics_ledger_url
printf '[owner]\nhost=postgres\ndbname=ledger\nuser=scraper_owner\npassword=%s\n' "$owner" > secrets/owner_service
for role in scraper_owner:$owner scraper_pipeline:$pipeline scraper_receiver:$receiver \
    scraper_metrics:$metrics dagster:$dagster; do
    printf "ALTER ROLE %s PASSWORD '%s';\n" "${role%%:*}" "${role#*:}"
done > secrets/postgres_passwords.sql
chown 10001 secrets/api_key secrets/*_url secrets/owner_service secrets/dagster_postgres_password
chown 999 secrets/postgres_password secrets/postgres_passwords.sql
chmod 0711 secrets
chmod 0755 secrets/tls
