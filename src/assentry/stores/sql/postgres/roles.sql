-- Group roles for the two kinds of database user. A login becomes one by `GRANT assentry_agent TO somebody`.
-- What an agent may do with what is granted here is bounded by the triggers of the migrations.
DO $$
BEGIN
    IF to_regrole('assentry_agent') IS NULL THEN
        CREATE ROLE assentry_agent NOLOGIN;
    END IF;
    IF to_regrole('assentry_reviewer') IS NULL THEN
        CREATE ROLE assentry_reviewer NOLOGIN;
    END IF;
END
$$;

GRANT SELECT ON about, migrations, asks, requests, grants, policies, entries, checkpoints, runs, snapshots, waits,
    switches
    TO assentry_agent, assentry_reviewer;

GRANT INSERT ON asks, requests, entries TO assentry_agent;
GRANT UPDATE ON requests, grants TO assentry_agent;
GRANT INSERT, UPDATE ON runs, snapshots TO assentry_agent;
GRANT INSERT, DELETE ON waits TO assentry_agent;

GRANT INSERT ON asks, requests, grants, policies, entries, checkpoints TO assentry_reviewer;
GRANT SELECT, INSERT ON proposals TO assentry_reviewer;
GRANT UPDATE (state, body) ON proposals TO assentry_reviewer;
GRANT UPDATE ON asks, requests, grants, checkpoints TO assentry_reviewer;
GRANT UPDATE (idx) ON entries TO assentry_reviewer;
GRANT INSERT, UPDATE ON runs, snapshots TO assentry_reviewer;
GRANT INSERT, DELETE ON waits TO assentry_reviewer;
GRANT INSERT, UPDATE ON switches TO assentry_reviewer;
