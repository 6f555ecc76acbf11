-- Made on a connection whose search path has our schema and nothing else. Functions keep that path, whoever calls them.

-- What a database is.
CREATE TABLE about (
    key text PRIMARY KEY,
    value text NOT NULL
);

INSERT INTO about VALUES ('identity', replace(gen_random_uuid()::text, '-', ''));

-- What never changes about a request: large, written once, never rewritten by a transition.
CREATE TABLE asks (
    workspace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    title text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (workspace, id)
);

-- What a search looks at: the words of `title`, each after a space, split and folded before they come here. They are
-- taken as they are: the server's own parser would split some of them again, by rules that depend on its locale.
-- What was asked last is looked through word by word until there is enough of it; not too much, or searches are slow.
CREATE INDEX asks_words ON asks USING gin (array_to_tsvector(string_to_array(btrim(title), ' ')))
    WITH (gin_pending_list_limit = 512);

-- What moves. A due_at in the year 9999 means that time does not move it.
-- Ids are uuid7, so their order is the order of creation. Each index costs every update, so there are few.
-- The token says which write made this version: whoever lost the connection while committing finds out by it.
CREATE TABLE requests (
    workspace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    token text NOT NULL,
    state text COLLATE "C" NOT NULL,
    urgency smallint NOT NULL, -- 0 is critical
    gate text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    code text COLLATE "C" NOT NULL,
    executor text COLLATE "C" NOT NULL,
    review text COLLATE "C" NOT NULL,
    word text COLLATE "C" NOT NULL,
    runnable boolean NOT NULL,
    ended boolean NOT NULL,
    purged boolean NOT NULL,
    due_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    callers text COLLATE "C" NOT NULL, -- the processes that wait for it, with spaces between; empty where it does not depend on them
    body text NOT NULL,
    PRIMARY KEY (workspace, id)
);

CREATE UNIQUE INDEX requests_step ON requests (workspace, run, step) WHERE run <> '';
CREATE INDEX requests_code ON requests (workspace, code);
-- Agent and action stand at the end so that filtering the inbox by them needs no look at the rows.
CREATE INDEX requests_pending ON requests (workspace, urgency, due_at, id, agent, action) WHERE state = 'pending';
CREATE INDEX requests_open ON requests (workspace, state, id) WHERE NOT ended AND state <> 'pending';
CREATE INDEX requests_ended ON requests (workspace, state, id) WHERE ended;
-- What waits for a person is found by its deadline in the index before; this one has the rest.
CREATE INDEX requests_due ON requests (workspace, due_at, id)
    WHERE due_at < '9999-01-01 00:00:00+00' AND state <> 'pending';
CREATE INDEX requests_runnable ON requests (workspace, action, id) WHERE runnable;
CREATE INDEX requests_review ON requests (workspace, id) WHERE review = 'open';
CREATE INDEX requests_unpurged ON requests (workspace, changed_at, id) WHERE ended AND NOT purged;
-- What waits, by agent: to be counted, and so that the same thing outside any run is not asked twice at once.
-- There the column `step` holds what is asked for.
CREATE UNIQUE INDEX requests_waiting ON requests (workspace, agent, run, step) WHERE state = 'pending';
-- What people decided before, for the same agent and action.
CREATE INDEX requests_decided ON requests (workspace, agent, action, id) WHERE word IN ('approve', 'deny', 'modify', 'choose', 'revise');

-- Whom requests name, so that a name of which nothing is known is found without a look at each of them.
CREATE INDEX requests_callers ON requests (workspace, callers) WHERE callers <> '';

CREATE TABLE grants (
    workspace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz NOT NULL,
    used bigint NOT NULL,
    spent numeric NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (workspace, id)
);

CREATE INDEX grants_live ON grants (workspace, expires_at) WHERE revoked_at > '9999-01-01 00:00:00+00';

CREATE TABLE policies (
    workspace text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    text text NOT NULL,
    applied_by text NOT NULL,
    applied_at timestamptz NOT NULL,
    PRIMARY KEY (workspace, version)
);

-- Policies that wait until a second person confirms them, and what became of each.
CREATE TABLE proposals (
    workspace text COLLATE "C" NOT NULL,
    code text COLLATE "C" NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    state text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (workspace, code)
);

CREATE INDEX proposals_waiting ON proposals (workspace, seq) WHERE state = 'waiting';

-- An entry is committed without an index; the sequencer gives it one. The identity must draw its numbers one by
-- one (no CACHE): then entries of one request, which commit one after the other, have ids in that order.
CREATE TABLE entries (
    workspace text COLLATE "C" NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    idx bigint,
    subject text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    text text NOT NULL,
    leaf text NOT NULL,
    batch text,
    PRIMARY KEY (workspace, id)
);

CREATE UNIQUE INDEX entries_idx ON entries (workspace, idx);
CREATE INDEX entries_fresh ON entries (workspace, id) WHERE idx IS NULL;
CREATE INDEX entries_subject ON entries (workspace, subject, idx);
-- A group of recorded entries whose commit was interrupted is tried again under the same name.
CREATE UNIQUE INDEX entries_batch ON entries (workspace, batch) WHERE batch IS NOT NULL;

CREATE TABLE checkpoints (
    workspace text COLLATE "C" NOT NULL,
    size bigint NOT NULL,
    text text NOT NULL,
    key_id text NOT NULL,
    signature text NOT NULL,
    PRIMARY KEY (workspace, size, key_id)
);

-- What agents work on. `due_at` is when its process must have shown that it lives; the year 9999 means never.
-- `wakeable` is kept by the database itself: a decision wakes the runs that wait for it in the same commit.
CREATE TABLE runs (
    workspace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    code text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    host text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    parent text COLLATE "C" NOT NULL,
    open boolean NOT NULL,
    wakeable boolean NOT NULL,
    due_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (workspace, id)
);

CREATE UNIQUE INDEX runs_code ON runs (workspace, code);
CREATE INDEX runs_key ON runs (workspace, agent, key, id) WHERE key <> '';
-- Two processes that begin with one key at the same moment begin one run.
CREATE UNIQUE INDEX runs_open_key ON runs (workspace, agent, key) WHERE key <> '' AND open;
CREATE INDEX runs_state ON runs (workspace, state, id);
CREATE INDEX runs_agent ON runs (workspace, agent, id);
CREATE INDEX runs_parent ON runs (workspace, parent, id) WHERE parent <> '';
CREATE INDEX runs_wakeable ON runs (workspace, host, changed_at, id) WHERE wakeable;
CREATE INDEX runs_due ON runs (workspace, due_at, id) WHERE due_at < '9999-01-01 00:00:00+00';

-- The state that a host gets back; large, and read only when a run is resumed.
CREATE TABLE snapshots (
    workspace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (workspace, id)
);

-- Which requests wake which parked run.
CREATE TABLE waits (
    workspace text COLLATE "C" NOT NULL,
    request text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, request, run)
);

CREATE INDEX waits_run ON waits (workspace, run);

-- The stop switches: of an agent, or of everything (`*`).
CREATE TABLE switches (
    workspace text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (workspace, agent)
);

-- Processes that wait for requests which nothing but they can find again, and until when each is known to live.
CREATE TABLE callers (
    workspace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    until timestamptz NOT NULL,
    life interval NOT NULL,
    gone boolean NOT NULL, -- taken for gone: it never comes back under this name
    PRIMARY KEY (workspace, id)
);

-- What proves who somebody is, as hashes; and replies that are kept for whoever asks again.
CREATE TABLE credentials (
    workspace text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    holder text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (workspace, kind, id)
);

CREATE INDEX credentials_holder ON credentials (workspace, kind, holder, id);
CREATE INDEX credentials_expiry ON credentials (workspace, expires_at) WHERE kind IN ('session', 'link', 'challenge', 'reply');

-- The version of the active policy, which stays the active one until this transaction ends: whoever applies another
-- takes the exclusive lock. VOLATILE, so that the version is read after the lock was waited for, and not before.
CREATE FUNCTION assentry_policy(workspace_ text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(pg_catalog.hashtextextended('assentry policy ' || workspace_, 0::bigint));
    RETURN coalesce((SELECT max(version) FROM policies WHERE workspace = workspace_), 0);
END
$$;

-- A group of changes, each of which takes full effect or none, in one round trip.
-- A new request is inserted, or the whole group fails. One that moves does so only from the version the change was
-- made from, and only while the clock is where the step believed it to be. What names an agent takes effect only while
-- no switch stops that agent; what names a policy, only while that is the active one. Entries and notice follow only then.
-- The locks on policies are taken before any row is locked.
-- The entries' ids are drawn after the row is locked, so entries of one request are numbered in commit order.
CREATE FUNCTION assentry_commit(changes jsonb, OUT done boolean[], OUT clock timestamptz)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    change jsonb;
    made requests;
    effect boolean;
    active jsonb := '{}';
    place text;
BEGIN
    FOR place IN SELECT DISTINCT c -> 'row' ->> 'workspace' FROM jsonb_array_elements(changes) c WHERE c ? 'policy' ORDER BY 1 LOOP
        active := active || jsonb_build_object(place, assentry_policy(place));
    END LOOP;
    FOR change IN SELECT jsonb_array_elements(changes) LOOP
        effect := true;
        IF change ? 'row' THEN
            made := jsonb_populate_record(NULL::requests, change -> 'row');
            effect := NOT (change ? 'policy') OR (active ->> made.workspace)::bigint = (change ->> 'policy')::bigint;
            effect := effect AND (NOT (change ? 'agent') OR NOT EXISTS (
                SELECT 1 FROM switches s
                WHERE s.workspace = made.workspace AND s.agent IN (change ->> 'agent', '*')
                    AND s.body::jsonb ->> 'setting' <> 'go'
            ));
            IF NOT effect THEN
                NULL;
            ELSIF change ? 'ask' THEN
                INSERT INTO requests SELECT made.*;
                INSERT INTO asks (workspace, id, title, body)
                VALUES (made.workspace, made.id, change ->> 'title', change ->> 'ask');
            ELSE
                UPDATE requests SET
                    version = made.version, token = made.token, state = made.state, urgency = made.urgency,
                    gate = made.gate, action = made.action, review = made.review, word = made.word,
                    runnable = made.runnable, ended = made.ended, purged = made.purged, due_at = made.due_at,
                    changed_at = made.changed_at, callers = made.callers, body = made.body
                WHERE workspace = made.workspace AND id = made.id AND version = made.version - 1
                    AND clock_timestamp() >= (change ->> 'not_before')::timestamptz
                    AND clock_timestamp() < (change ->> 'before')::timestamptz;
                effect := FOUND;
            END IF;
        END IF;
        IF effect THEN
            INSERT INTO entries (workspace, subject, kind, at, text, leaf, batch)
            SELECT e.workspace, e.subject, e.kind, e.at, e.text, e.leaf, e.batch
            FROM ROWS FROM (
                jsonb_to_recordset(change -> 'entries')
                AS (workspace text, subject text, kind text, at timestamptz, text text, leaf text, batch text)
            ) WITH ORDINALITY AS e (workspace, subject, kind, at, text, leaf, batch, place)
            ORDER BY e.place;
            IF change ? 'notice' THEN
                PERFORM pg_notify('assentry', change ->> 'notice');
            END IF;
        END IF;
        done := done || effect;
    END LOOP;
    clock := clock_timestamp();
END
$$;

-- Nobody changes the log. The sequencer gives an entry the index it does not have yet, and nothing else.
CREATE FUNCTION assentry_entries_stay() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.idx IS NULL AND NEW.idx IS NOT NULL
            AND (NEW.workspace, NEW.id, NEW.subject, NEW.kind, NEW.at, NEW.text, NEW.leaf)
              = (OLD.workspace, OLD.id, OLD.subject, OLD.kind, OLD.at, OLD.text, OLD.leaf)
            AND NEW.batch IS NOT DISTINCT FROM OLD.batch
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'an entry of the audit log is never changed or deleted' USING ERRCODE = '42501';
END
$$;

CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE ON entries
    FOR EACH ROW EXECUTE FUNCTION assentry_entries_stay();
CREATE TRIGGER entries_stay_all BEFORE TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION assentry_entries_stay();

-- A proposed policy ends once, and nobody makes it wait again.
CREATE FUNCTION assentry_proposal_ends() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF OLD.state = 'waiting' AND NEW.state <> 'waiting'
        AND (NEW.workspace, NEW.code, NEW.seq) = (OLD.workspace, OLD.code, OLD.seq)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a proposed policy only ends, once' USING ERRCODE = '42501';
END
$$;

CREATE TRIGGER proposals_end BEFORE UPDATE ON proposals FOR EACH ROW EXECUTE FUNCTION assentry_proposal_ends();

-- A decision wakes the runs that wait for it: when the request can go no further without its run, not while it still
-- runs elsewhere. Where the outcome is unknown the run is woken to see that, and then waits until somebody has looked.
CREATE FUNCTION assentry_wake_runs() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE runs SET wakeable = true
    WHERE workspace = NEW.workspace AND state = 'parked'
        AND id IN (SELECT run FROM waits WHERE workspace = NEW.workspace AND request = NEW.id);
    RETURN NULL;
END
$$;

CREATE TRIGGER decisions_wake_runs AFTER UPDATE OF state ON requests FOR EACH ROW WHEN (
    (OLD.state IN ('pending', 'running', 'unknown') OR (OLD.state = 'approved' AND OLD.executor = 'worker'))
    AND OLD.state <> NEW.state
    AND NOT (NEW.state IN ('pending', 'running') OR (NEW.state = 'approved' AND NEW.executor = 'worker'))
) EXECUTE FUNCTION assentry_wake_runs();
