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

-- A group of changes, each of which takes full effect or none, in one round trip.
-- A new request is inserted, or the whole group fails. One that moves does so only from the version the change was
-- made from, and only while the clock is where the step believed it to be. Entries and notice follow only then.
-- The entries' ids are drawn after the row is locked, so entries of one request are numbered in commit order.
CREATE FUNCTION assentry_commit(changes jsonb, OUT done boolean[], OUT clock timestamptz) LANGUAGE plpgsql AS $$
DECLARE
    change jsonb;
    made requests;
    effect boolean;
BEGIN
    FOR change IN SELECT jsonb_array_elements(changes) LOOP
        effect := true;
        IF change ? 'row' THEN
            made := jsonb_populate_record(NULL::requests, change -> 'row');
            IF change ? 'ask' THEN
                INSERT INTO requests SELECT made.*;
                INSERT INTO asks (workspace, id, title, body)
                VALUES (made.workspace, made.id, change ->> 'title', change ->> 'ask');
            ELSE
                UPDATE requests SET
                    version = made.version, token = made.token, state = made.state, urgency = made.urgency,
                    gate = made.gate, action = made.action, review = made.review, word = made.word,
                    runnable = made.runnable, ended = made.ended, purged = made.purged, due_at = made.due_at,
                    changed_at = made.changed_at, body = made.body
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
CREATE FUNCTION assentry_entries_stay() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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

-- What follows binds database users who are agents (members of assentry_agent, not of assentry_reviewer; superusers
-- are members of everything). Roles are looked up by name when a row is written, so they may be created later.
-- That is asked inside the functions: as a WHEN of the trigger it would be parsed anew for every statement.

-- An agent asks; it never writes a request that somebody has decided, and no approval.
CREATE FUNCTION assentry_agent_asks() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    body jsonb;
BEGIN
    IF NOT coalesce(pg_has_role(current_user, to_regrole('assentry_agent')::oid, 'MEMBER'), false)
        OR coalesce(pg_has_role(current_user, to_regrole('assentry_reviewer')::oid, 'MEMBER'), false)
    THEN
        RETURN NEW;
    END IF;
    body := NEW.body::jsonb;
    IF NEW.version = 1 AND NOT body ? 'votes' AND NOT body ? 'decided_by' AND NOT body ? 'candidate'
        AND (NEW.state IN ('pending', 'refused')
             OR (NEW.state IN ('running', 'approved') AND NEW.gate IN ('run', 'watch') AND NEW.executor = 'caller'))
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'an agent may not insert a request as %', NEW.state USING ERRCODE = '42501';
END
$$;

CREATE TRIGGER requests_agent_asks BEFORE INSERT ON requests FOR EACH ROW
    EXECUTE FUNCTION assentry_agent_asks();

-- An agent withdraws, lets time pass and runs what was approved; it never decides, and never changes what was
-- asked, voted, permitted or chosen.
CREATE FUNCTION assentry_agent_moves() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was jsonb;
    becomes jsonb;
    silent boolean := NEW.word = 'silence' AND NEW.gate IN ('soft', 'ask');
    moves text := OLD.state || ' > ' || NEW.state;
    allowed boolean;
BEGIN
    IF NOT coalesce(pg_has_role(current_user, to_regrole('assentry_agent')::oid, 'MEMBER'), false)
        OR coalesce(pg_has_role(current_user, to_regrole('assentry_reviewer')::oid, 'MEMBER'), false)
    THEN
        RETURN NEW;
    END IF;
    was := OLD.body::jsonb;
    becomes := NEW.body::jsonb;
    allowed := CASE
        WHEN OLD.state = 'pending' THEN
            NEW.state IN ('pending', 'expired', 'cancelled')
            OR (NEW.state IN ('approved', 'answered') AND silent AND OLD.gate = NEW.gate)
        ELSE moves IN (
            'approved > running', 'approved > expired', 'approved > cancelled',
            'running > running', 'running > done', 'running > failed', 'running > unknown',
            'unknown > running', 'unknown > done', 'unknown > failed', 'unknown > undone',
            'done > done', 'undo asked > undoing', 'undo asked > done',
            'undoing > undoing', 'undoing > undone', 'undoing > done', 'undoing > unknown'
        )
    END;
    IF allowed
        AND (NEW.workspace, NEW.id, NEW.version, NEW.kind, NEW.agent, NEW.action, NEW.run, NEW.step, NEW.code,
             NEW.executor, NEW.gate, NEW.urgency, NEW.purged)
          = (OLD.workspace, OLD.id, OLD.version + 1, OLD.kind, OLD.agent, OLD.action, OLD.run, OLD.step, OLD.code,
             OLD.executor, OLD.gate, OLD.urgency, OLD.purged)
        AND (NEW.review = OLD.review OR (OLD.review = 'none' AND NEW.review = 'open'))
        AND (becomes -> 'candidate') IS NOT DISTINCT FROM (was -> 'candidate')
        AND (becomes -> 'votes') IS NOT DISTINCT FROM (was -> 'votes')
        AND (becomes -> 'chosen') IS NOT DISTINCT FROM (was -> 'chosen')
        AND ((becomes -> 'answer') IS NOT DISTINCT FROM (was -> 'answer') OR NEW.state = 'answered')
        AND (NEW.state = 'cancelled' OR (becomes -> 'decided_by') IS NOT DISTINCT FROM (was -> 'decided_by'))
        AND (NEW.state = 'approved'
             OR (becomes -> 'permit' -> 'digest') IS NOT DISTINCT FROM (was -> 'permit' -> 'digest'))
        AND ((was #>> '{permit,used_at}') IS NULL
             OR (becomes #>> '{permit,used_at}') IS NOT DISTINCT FROM (was #>> '{permit,used_at}'))
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'an agent may not take a request from % to %', OLD.state, NEW.state USING ERRCODE = '42501';
END
$$;

CREATE TRIGGER requests_agent_moves BEFORE UPDATE ON requests FOR EACH ROW
    EXECUTE FUNCTION assentry_agent_moves();

-- An agent uses a grant; it neither makes nor widens one.
CREATE FUNCTION assentry_agent_uses() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    counted text[] := ARRAY['used', 'spent', 'version'];
BEGIN
    IF NOT coalesce(pg_has_role(current_user, to_regrole('assentry_agent')::oid, 'MEMBER'), false)
        OR coalesce(pg_has_role(current_user, to_regrole('assentry_reviewer')::oid, 'MEMBER'), false)
    THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE'
        AND (NEW.workspace, NEW.id, NEW.version, NEW.used, NEW.expires_at, NEW.revoked_at)
          = (OLD.workspace, OLD.id, OLD.version + 1, OLD.used + 1, OLD.expires_at, OLD.revoked_at)
        AND NEW.spent >= OLD.spent
        AND (NEW.body::jsonb - counted) = (OLD.body::jsonb - counted)
        AND coalesce((NEW.body::jsonb ->> 'used')::bigint, 0) = NEW.used
        AND coalesce((NEW.body::jsonb ->> 'spent')::numeric, 0) = NEW.spent
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'an agent may use a grant, not make or change one' USING ERRCODE = '42501';
END
$$;

CREATE TRIGGER grants_agent_uses BEFORE INSERT OR UPDATE ON grants FOR EACH ROW
    EXECUTE FUNCTION assentry_agent_uses();

-- An agent's entries say what agents do. What people do, only people's entries say.
CREATE FUNCTION assentry_agent_says() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    said jsonb;
BEGIN
    IF NOT coalesce(pg_has_role(current_user, to_regrole('assentry_agent')::oid, 'MEMBER'), false)
        OR coalesce(pg_has_role(current_user, to_regrole('assentry_reviewer')::oid, 'MEMBER'), false)
    THEN
        RETURN NEW;
    END IF;
    said := NEW.text::jsonb;
    IF said ->> 'kind' = NEW.kind AND NEW.idx IS NULL
        AND NOT starts_with(NEW.kind, 'policy.') AND NOT starts_with(NEW.kind, 'review.')
        AND (NEW.kind = 'grant.used' OR NOT starts_with(NEW.kind, 'grant.'))
        AND NEW.kind NOT IN ('request.voted', 'request.amended')
        AND (NEW.kind <> 'request.decided'
             OR (said ->> 'actor' = 'silence' AND said -> 'body' ->> 'word' = 'silence'))
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'an agent may not log %', NEW.kind USING ERRCODE = '42501';
END
$$;

CREATE TRIGGER entries_agent_says BEFORE INSERT ON entries FOR EACH ROW
    EXECUTE FUNCTION assentry_agent_says();

-- Nor does an agent write policy, whatever it has been granted.
CREATE FUNCTION assentry_agent_keeps_out() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT coalesce(pg_has_role(current_user, to_regrole('assentry_agent')::oid, 'MEMBER'), false)
        OR coalesce(pg_has_role(current_user, to_regrole('assentry_reviewer')::oid, 'MEMBER'), false)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'an agent may not write %', TG_TABLE_NAME USING ERRCODE = '42501';
END
$$;

CREATE TRIGGER policies_agent_keeps_out BEFORE INSERT OR UPDATE ON policies FOR EACH ROW
    EXECUTE FUNCTION assentry_agent_keeps_out();
