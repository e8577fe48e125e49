#!/bin/sh
# Run once by the image of Postgres, in an empty data folder: databases, roles, and their passwords from a secret.
set -eu
psql="psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username postgres"
$psql --file /scraper/databases.sql
$psql --dbname ledger --file /scraper/roles.sql
$psql --file /run/secrets/postgres_passwords_sql
