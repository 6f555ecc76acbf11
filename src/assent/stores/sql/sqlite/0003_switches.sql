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
