-- Once for each ledger, as superuser, in the ledger's database and before the first migration. It may be repeated.
--     psql -d ledger -f roles.sql
-- scraper_owner     owns the tables and migrates them; nothing that runs all day has its password
-- scraper_pipeline  reads and writes all of them: the code server, and whoever types commands
-- scraper_receiver  leaves news of jobs, and quarantines bodies: grants.sql says what it may touch
-- scraper_metrics   reads figures for Prometheus, and no page
-- Passwords are set afterwards, with \password, so that they are in no file.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['scraper_owner', 'scraper_pipeline', 'scraper_receiver', 'scraper_metrics'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', name);
        END IF;
        -- What a lost host has locked is free after a minute; by default the server waits for a sign for two hours.
        EXECUTE format('ALTER ROLE %I SET tcp_keepalives_idle = 30', name);
        EXECUTE format('ALTER ROLE %I SET tcp_keepalives_interval = 10', name);
        EXECUTE format('ALTER ROLE %I SET tcp_keepalives_count = 3', name);
    END LOOP;
    EXECUTE format('ALTER DATABASE %I OWNER TO scraper_owner', current_database());
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO scraper_pipeline, scraper_receiver, scraper_metrics',
                   current_database());
END
$$;
ALTER ROLE scraper_receiver CONNECTION LIMIT 40;
ALTER ROLE scraper_metrics CONNECTION LIMIT 10;

REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO scraper_owner;
GRANT USAGE ON SCHEMA public TO scraper_pipeline, scraper_receiver, scraper_metrics;

-- Tables that later migrations make are the pipeline's to use at once.
ALTER DEFAULT PRIVILEGES FOR ROLE scraper_owner IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO scraper_pipeline;
ALTER DEFAULT PRIVILEGES FOR ROLE scraper_owner IN SCHEMA public
    GRANT USAGE, SELECT ON SEQUENCES TO scraper_pipeline;
