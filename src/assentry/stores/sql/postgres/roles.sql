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

GRANT USAGE ON SCHEMA assentry_data TO assentry_agent, assentry_reviewer;

GRANT SELECT ON assentry_data.about, assentry_data.migrations, assentry_data.asks, assentry_data.requests,
    assentry_data.grants, assentry_data.policies, assentry_data.entries, assentry_data.checkpoints, assentry_data.runs,
    assentry_data.snapshots, assentry_data.waits, assentry_data.switches
    TO assentry_agent, assentry_reviewer;

GRANT INSERT ON assentry_data.asks, assentry_data.requests, assentry_data.entries TO assentry_agent;
GRANT UPDATE ON assentry_data.requests, assentry_data.grants TO assentry_agent;
GRANT INSERT, UPDATE ON assentry_data.runs, assentry_data.snapshots TO assentry_agent;
GRANT INSERT, DELETE ON assentry_data.waits TO assentry_agent;
GRANT SELECT, INSERT, UPDATE, DELETE ON assentry_data.callers TO assentry_agent, assentry_reviewer;

GRANT INSERT ON assentry_data.asks, assentry_data.requests, assentry_data.grants, assentry_data.policies,
    assentry_data.entries, assentry_data.checkpoints
    TO assentry_reviewer;
GRANT SELECT, INSERT ON assentry_data.proposals TO assentry_reviewer;
GRANT UPDATE (state, body) ON assentry_data.proposals TO assentry_reviewer;
GRANT UPDATE ON assentry_data.asks, assentry_data.requests, assentry_data.grants, assentry_data.checkpoints TO assentry_reviewer;
GRANT UPDATE (idx) ON assentry_data.entries TO assentry_reviewer;
GRANT INSERT, UPDATE ON assentry_data.runs, assentry_data.snapshots TO assentry_reviewer;
GRANT INSERT, DELETE ON assentry_data.waits TO assentry_reviewer;
GRANT INSERT, UPDATE ON assentry_data.switches TO assentry_reviewer;
