-- Once for each server, as its superuser: a database for Dagster's own storage, and one for the ledger.
--     psql -f databases.sql
CREATE ROLE dagster LOGIN;
ALTER ROLE dagster SET tcp_keepalives_idle = 30;
ALTER ROLE dagster SET tcp_keepalives_interval = 10;
ALTER ROLE dagster SET tcp_keepalives_count = 3;
CREATE DATABASE dagster OWNER dagster;
REVOKE CONNECT, TEMPORARY ON DATABASE dagster FROM PUBLIC;
CREATE DATABASE ledger ENCODING 'UTF8' TEMPLATE template0;
