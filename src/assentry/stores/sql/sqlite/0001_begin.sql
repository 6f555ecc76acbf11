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
    callers TEXT NOT NULL, -- the processes that wait for it, with spaces between; empty where it does not depend on them
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
-- What waits, by agent: to be counted, and so that the same thing outside any run is not asked twice at once.
-- There the column `step` holds what is asked for.
CREATE UNIQUE INDEX requests_waiting ON requests (workspace, agent, run, step) WHERE state = 'pending';
-- What people decided before, for the same agent and action.
CREATE INDEX requests_decided ON requests (workspace, agent, action, id) WHERE word IN ('approve', 'deny', 'modify', 'choose', 'revise');

-- Whom requests name, so that a name of which nothing is known is found without a look at each of them.
CREATE INDEX requests_callers ON requests (workspace, callers) WHERE callers <> '';

-- What never changes about a request: large, written once, never rewritten by a transition.
CREATE TABLE asks (
    seq INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

-- What a search looks at: the words of `title`, each after a space, split and folded before they come here, so that the
-- tokenizer has nothing left to decide. `rank` 1 of secure-delete: what is purged leaves the index at once.
CREATE VIRTUAL TABLE words USING fts5 (
    title, content = 'asks', content_rowid = 'seq', tokenize = 'ascii', detail = 'none', columnsize = 0
);
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);

CREATE TRIGGER asks_are_found AFTER INSERT ON asks
BEGIN
    INSERT INTO words (rowid, title) VALUES (NEW.seq, NEW.title);
END;

CREATE TRIGGER asks_are_forgotten AFTER UPDATE OF title ON asks WHEN OLD.title <> NEW.title
BEGIN
    INSERT INTO words (words, rowid, title) VALUES ('delete', OLD.seq, OLD.title);
    INSERT INTO words (rowid, title) VALUES (NEW.seq, NEW.title);
END;

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

-- A decision wakes the runs that wait for it: when the request can go no further without its run, not while it still
-- runs elsewhere. Where the outcome is unknown the run is woken to see that, and then waits until somebody has looked.
CREATE TRIGGER decisions_wake_runs AFTER UPDATE OF state ON requests
WHEN (OLD.state IN ('pending', 'running', 'unknown') OR (OLD.state = 'approved' AND OLD.executor = 'worker'))
    AND OLD.state <> NEW.state
    AND NOT (NEW.state IN ('pending', 'running') OR (NEW.state = 'approved' AND NEW.executor = 'worker'))
BEGIN
    UPDATE runs SET wakeable = 1
    WHERE workspace = NEW.workspace AND state = 'parked'
        AND id IN (SELECT run FROM waits WHERE workspace = NEW.workspace AND request = NEW.id);
END;

-- The stop switches: of an agent, or of everything (`*`).
CREATE TABLE switches (
    workspace TEXT NOT NULL,
    agent TEXT NOT NULL,
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (workspace, agent)
) STRICT, WITHOUT ROWID;

-- Processes that wait for requests which nothing but they can find again, and until when each is known to live.
CREATE TABLE callers (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    until INTEGER NOT NULL,
    gone INTEGER NOT NULL, -- taken for gone: it never comes back under this name
    PRIMARY KEY (workspace, id)
) STRICT, WITHOUT ROWID;

-- What proves who somebody is, as hashes; and replies that are kept for whoever asks again.
CREATE TABLE credentials (
    workspace TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    holder TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (workspace, kind, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX credentials_holder ON credentials (workspace, kind, holder, id);
CREATE INDEX credentials_expiry ON credentials (workspace, expires_at) WHERE kind IN ('session', 'link', 'challenge', 'reply');
