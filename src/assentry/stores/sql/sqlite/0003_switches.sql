-- The stop switches: of an agent, or of everything (`*`).
CREATE TABLE switches (
    workspace TEXT NOT NULL,
    agent TEXT NOT NULL,
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (workspace, agent)
) STRICT, WITHOUT ROWID;

-- What waits, by agent: to be counted, and so that the same thing outside any run is not asked twice at once.
-- There the column `step` holds what is asked for.
CREATE UNIQUE INDEX requests_waiting ON requests (workspace, agent, run, step) WHERE state = 'pending';

-- A run is woken by what can go no further without it, not while that still runs elsewhere. Where nobody knows how it
-- went, the run is woken to see that, and then waits until somebody does.
DROP TRIGGER decisions_wake_runs;
CREATE TRIGGER decisions_wake_runs AFTER UPDATE OF state ON requests
WHEN (OLD.state IN ('pending', 'running', 'unknown') OR (OLD.state = 'approved' AND OLD.executor = 'worker'))
    AND OLD.state <> NEW.state
    AND NOT (NEW.state IN ('pending', 'running') OR (NEW.state = 'approved' AND NEW.executor = 'worker'))
BEGIN
    UPDATE runs SET wakeable = 1
    WHERE workspace = NEW.workspace AND state = 'parked'
        AND id IN (SELECT run FROM waits WHERE workspace = NEW.workspace AND request = NEW.id);
END;
