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

-- What a search looks at: the words of `title`, each after a space, split and folded before they come here, so that the
-- tokenizer has nothing left to decide. `rank` 1 of secure-delete: what is purged leaves the index at once.
UPDATE asks SET title = (
    SELECT CASE WHEN r.purged THEN '' ELSE assentry_words(r.id, asks.title, r.code) END FROM requests r WHERE r.seq = asks.seq
);
CREATE VIRTUAL TABLE words USING fts5 (
    title, content = 'asks', content_rowid = 'seq', tokenize = 'ascii', detail = 'none', columnsize = 0
);
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
INSERT INTO words (words) VALUES ('rebuild');

CREATE TRIGGER asks_are_found AFTER INSERT ON asks
BEGIN
    INSERT INTO words (rowid, title) VALUES (NEW.seq, NEW.title);
END;

CREATE TRIGGER asks_are_forgotten AFTER UPDATE OF title ON asks WHEN OLD.title <> NEW.title
BEGIN
    INSERT INTO words (words, rowid, title) VALUES ('delete', OLD.seq, OLD.title);
    INSERT INTO words (rowid, title) VALUES (NEW.seq, NEW.title);
END;
