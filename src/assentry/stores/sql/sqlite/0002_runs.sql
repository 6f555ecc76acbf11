-- What agents work on. `due_at` is when its process must have shown that it lives; 2^63-1 means never.
-- `wakeable` is kept by the database itself: a decision wakes the runs that wait for it in the same commit.
CREATE TABLE runs (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    code TEXT NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    agent TEXT NOT NULL,
    host TEXT NOT NULL,
    key TEXT NOT NULL,
    parent TEXT NOT NULL,
    open INTEGER NOT NULL,
    wakeable INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (workspace, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX runs_code ON runs (workspace, code);
CREATE INDEX runs_key ON runs (workspace, agent, key, id) WHERE key <> '';
-- Two processes that begin with one key at the same moment begin one run.
CREATE UNIQUE INDEX runs_open_key ON runs (workspace, agent, key) WHERE key <> '' AND open = 1;
CREATE INDEX runs_state ON runs (workspace, state, id);
CREATE INDEX runs_agent ON runs (workspace, agent, id);
CREATE INDEX runs_parent ON runs (workspace, parent, id) WHERE parent <> '';
CREATE INDEX runs_wakeable ON runs (workspace, host, changed_at, id) WHERE wakeable = 1;
CREATE INDEX runs_due ON runs (workspace, due_at, id) WHERE due_at < 9223372036854775807;

-- The state that a host gets back; large, and read only when a run is resumed.
CREATE TABLE snapshots (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (workspace, id)
) STRICT;

-- Which requests wake which parked run.
CREATE TABLE waits (
    workspace TEXT NOT NULL,
    request TEXT NOT NULL,
    run TEXT NOT NULL,
    PRIMARY KEY (workspace, request, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX waits_run ON waits (workspace, run);

CREATE TRIGGER decisions_wake_runs AFTER UPDATE OF state ON requests WHEN OLD.state = 'pending' AND NEW.state <> 'pending'
BEGIN
    UPDATE runs SET wakeable = 1
    WHERE workspace = NEW.workspace AND state = 'parked'
        AND id IN (SELECT run FROM waits WHERE workspace = NEW.workspace AND request = NEW.id);
END;
