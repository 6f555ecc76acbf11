-- What a database is.
CREATE TABLE about (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO about VALUES ('identity', lower(hex(randomblob(16))));

-- What moves. Times are microseconds since 1970; a due_at of 2^63-1 means that time does not move it.
-- Ids are uuid7, so their order is the order of creation. Each index costs every commit that touches it a page,
-- so there are few, and they are partial where they can be.
CREATE TABLE requests (
    seq INTEGER PRIMARY KEY,
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    urgency INTEGER NOT NULL, -- 0 is critical
    gate TEXT NOT NULL,
    kind TEXT NOT NULL,
    agent TEXT NOT NULL,
    action TEXT NOT NULL,
    run TEXT NOT NULL,
    step TEXT NOT NULL,
    code TEXT NOT NULL,
    executor TEXT NOT NULL,
    review TEXT NOT NULL,
    word TEXT NOT NULL,
    runnable INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    purged INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX requests_id ON requests (workspace, id);
CREATE UNIQUE INDEX requests_step ON requests (workspace, run, step) WHERE run <> '';
CREATE INDEX requests_code ON requests (workspace, code);
-- Agent and action stand at the end so that filtering the inbox by them needs no look at the rows.
CREATE INDEX requests_pending ON requests (workspace, urgency, due_at, id, agent, action) WHERE state = 'pending';
CREATE INDEX requests_open ON requests (workspace, state, id) WHERE ended = 0 AND state <> 'pending';
CREATE INDEX requests_ended ON requests (workspace, state, id) WHERE ended = 1;
-- What waits for a person is found by its deadline in the index before; this one has the rest.
CREATE INDEX requests_due ON requests (workspace, due_at, id) WHERE due_at < 9223372036854775807 AND state <> 'pending';
CREATE INDEX requests_runnable ON requests (workspace, action, id) WHERE runnable = 1;
CREATE INDEX requests_review ON requests (workspace, id) WHERE review = 'open';
CREATE INDEX requests_unpurged ON requests (workspace, changed_at, id) WHERE ended = 1 AND purged = 0;

-- What never changes about a request: large, written once, never rewritten by a transition.
CREATE TABLE asks (
    seq INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE grants (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL,
    used INTEGER NOT NULL,
    spent TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (workspace, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX grants_live ON grants (workspace, expires_at) WHERE revoked_at = 9223372036854775807;

CREATE TABLE policies (
    workspace TEXT NOT NULL,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    applied_by TEXT NOT NULL,
    applied_at INTEGER NOT NULL,
    PRIMARY KEY (workspace, version)
) STRICT, WITHOUT ROWID;

-- Rows are never deleted, so the rowid only grows, and other processes use it to see what is new.
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    workspace TEXT NOT NULL,
    idx INTEGER NOT NULL,
    subject TEXT NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    text TEXT NOT NULL,
    leaf TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX entries_idx ON entries (workspace, idx);
CREATE INDEX entries_subject ON entries (workspace, subject, idx);

CREATE TRIGGER entries_are_not_changed BEFORE UPDATE ON entries
BEGIN
    SELECT RAISE(ABORT, 'an entry of the audit log is never changed');
END;

CREATE TRIGGER entries_are_not_deleted BEFORE DELETE ON entries
BEGIN
    SELECT RAISE(ABORT, 'an entry of the audit log is never deleted');
END;

CREATE TABLE checkpoints (
    workspace TEXT NOT NULL,
    size INTEGER NOT NULL,
    text TEXT NOT NULL,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL,
    PRIMARY KEY (workspace, size, key_id)
) STRICT, WITHOUT ROWID;
