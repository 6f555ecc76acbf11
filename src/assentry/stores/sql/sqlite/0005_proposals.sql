-- Policies that wait until a second person confirms them, and what became of each.
CREATE TABLE proposals (
    seq INTEGER PRIMARY KEY,
    workspace TEXT NOT NULL,
    code TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (workspace, code)
) STRICT;

CREATE INDEX proposals_waiting ON proposals (workspace, seq) WHERE state = 'waiting';
