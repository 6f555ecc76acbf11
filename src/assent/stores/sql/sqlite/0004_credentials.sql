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

-- What people decided before, for the same agent and action.
CREATE INDEX requests_decided ON requests (workspace, agent, action, id) WHERE word IN ('approve', 'deny', 'modify', 'choose', 'revise');
