-- Group roles for the two kinds of database user. A login becomes one by `GRANT assent_agent TO somebody`.
-- What an agent may do with what is granted here is bounded by the triggers of the migrations.
DO $$
BEGIN
    IF to_regrole('assent_agent') IS NULL THEN
        CREATE ROLE assent_agent NOLOGIN;
    END IF;
    IF to_regrole('assent_reviewer') IS NULL THEN
        CREATE ROLE assent_reviewer NOLOGIN;
    END IF;
END
$$;

GRANT SELECT ON about, migrations, asks, requests, grants, policies, entries, checkpoints, runs, snapshots, waits,
    switches
    TO assent_agent, assent_reviewer;

GRANT INSERT ON asks, requests, entries TO assent_agent;
GRANT UPDATE ON requests, grants TO assent_agent;
GRANT INSERT, UPDATE ON runs, snapshots TO assent_agent;
GRANT INSERT, DELETE ON waits TO assent_agent;

GRANT INSERT ON asks, requests, grants, policies, entries, checkpoints TO assent_reviewer;
GRANT SELECT, INSERT ON proposals TO assent_reviewer;
GRANT UPDATE (state, body) ON proposals TO assent_reviewer;
GRANT UPDATE ON asks, requests, grants, checkpoints TO assent_reviewer;
GRANT UPDATE (idx) ON entries TO assent_reviewer;
GRANT INSERT, UPDATE ON runs, snapshots TO assent_reviewer;
GRANT INSERT, DELETE ON waits TO assent_reviewer;
GRANT INSERT, UPDATE ON switches TO assent_reviewer;
