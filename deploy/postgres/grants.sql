-- After each migration, as scraper_owner or superuser, in the ledger's database. It may be repeated.
--     psql -d ledger -f grants.sql
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO scraper_pipeline;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO scraper_pipeline;
REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM scraper_pipeline;

-- What a receiver's statements touch, and no more: whoever takes one over reads no page, no target and no letter, plans
-- nothing that is paid, and cannot mark a job as done.
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM scraper_receiver;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM scraper_receiver;
GRANT SELECT ON alembic_version TO scraper_receiver;
GRANT INSERT (job_id, event_type, delivery_id, account, feed, webhook_at, received_at, available_at),
      UPDATE (event_type, delivery_id, webhook_at, given_up_at, available_at),
      SELECT (job_id, event_type, delivery_id, webhook_at, given_up_at, available_at)
    ON processed_events TO scraper_receiver;
GRANT INSERT (account, feed, source, reason, body, received_at), SELECT (id) ON quarantine TO scraper_receiver;
GRANT USAGE ON SEQUENCE quarantine_id_seq TO scraper_receiver;

-- Figures are counted from these. Pages, and what was quarantined, are not among them.
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM scraper_metrics;
GRANT SELECT ON alembic_version, submissions, jobs, processed_events, partitions, dead_letters, sweeps, webhooks, deliveries
    TO scraper_metrics;
GRANT SELECT (job_id, item_key) ON results TO scraper_metrics;
GRANT SELECT (id, account, feed, resolved_at) ON quarantine TO scraper_metrics;
