-- The stop switches: of an agent, or of everything (`*`).
CREATE TABLE switches (
    workspace text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (workspace, agent)
);

-- As before; and what names an agent takes effect only while no switch holds that one up.
CREATE OR REPLACE FUNCTION assentry_commit(changes jsonb, OUT done boolean[], OUT clock timestamptz) LANGUAGE plpgsql AS $$
DECLARE
    change jsonb;
    made requests;
    effect boolean;
BEGIN
    FOR change IN SELECT jsonb_array_elements(changes) LOOP
        effect := true;
        IF change ? 'row' THEN
            made := jsonb_populate_record(NULL::requests, change -> 'row');
            effect := NOT (change ? 'agent') OR NOT EXISTS (
                SELECT 1 FROM switches s
                WHERE s.workspace = made.workspace AND s.agent IN (change ->> 'agent', '*')
                    AND s.body::jsonb ->> 'setting' <> 'go'
            );
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

-- What waits, by agent: to be counted, and so that the same thing outside any run is not asked twice at once.
-- There the column `step` holds what is asked for.
CREATE UNIQUE INDEX requests_waiting ON requests (workspace, agent, run, step) WHERE state = 'pending';

-- Whether a database user is an agent and not a reviewer as well.
CREATE FUNCTION assentry_is_agent() RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(pg_has_role(current_user, to_regrole('assentry_agent')::oid, 'MEMBER'), false)
        AND NOT coalesce(pg_has_role(current_user, to_regrole('assentry_reviewer')::oid, 'MEMBER'), false)
$$;

CREATE TRIGGER switches_agent_keeps_out BEFORE INSERT OR UPDATE ON switches FOR EACH ROW
    EXECUTE FUNCTION assentry_agent_keeps_out();

-- Who is told about a request may decide about it, so on an agent's connection the circle grows only as the request's own
-- ladder says, and when its time has come.
CREATE FUNCTION assentry_told_in_time(was jsonb, becomes jsonb, asks_for jsonb, due timestamptz)
RETURNS boolean LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT due <= clock_timestamp()
        AND coalesce(becomes -> 'told', '[]') @> coalesce(was -> 'told', '[]')
        AND NOT EXISTS (
            SELECT name FROM jsonb_array_elements(becomes -> 'told') name
            EXCEPT SELECT jsonb_array_elements(was -> 'told')
            EXCEPT SELECT jsonb_path_query(asks_for, '$.verdict.ladder.rungs[*].tell[*]')
            EXCEPT SELECT jsonb_path_query(asks_for, '$.verdict.ladder.rungs[*].rota[*]')
        )
$$;

-- As before; and where an agent finds that the facts have changed since it was approved, it may ask again (nothing that
-- was said about it counts any more then) or note down the change.
CREATE OR REPLACE FUNCTION assentry_agent_moves() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    was jsonb;
    becomes jsonb;
    silent boolean := NEW.word = 'silence' AND NEW.gate IN ('soft', 'ask');
    moves text := OLD.state || ' > ' || NEW.state;
    allowed boolean;
    noted text[] := ARRAY['version', 'changed_at', 'changes', 'looked_at', 'review'];
BEGIN
    IF NOT assentry_is_agent() THEN
        RETURN NEW;
    END IF;
    was := OLD.body::jsonb;
    becomes := NEW.body::jsonb;
    IF becomes ->> 'state' IS DISTINCT FROM NEW.state THEN
        RAISE EXCEPTION 'a request is what its row says' USING ERRCODE = '42501';
    END IF;
    IF moves = 'approved > pending'
        AND (NEW.workspace, NEW.id, NEW.version, NEW.kind, NEW.agent, NEW.action, NEW.run, NEW.step, NEW.code,
             NEW.executor, NEW.purged, NEW.word, NEW.review)
          = (OLD.workspace, OLD.id, OLD.version + 1, OLD.kind, OLD.agent, OLD.action, OLD.run, OLD.step, OLD.code,
             OLD.executor, OLD.purged, '', OLD.review)
        AND NOT becomes ?| ARRAY['votes', 'decided_by', 'permit', 'answer', 'told']
        AND NEW.gate IN ('hard', 'manual')
        AND (becomes ->> 'round')::bigint = coalesce((was ->> 'round')::bigint, 0) + 1
        AND (becomes -> 'chosen') IS NOT DISTINCT FROM (was -> 'chosen')
    THEN
        RETURN NEW;
    END IF;
    IF moves = 'approved > approved' AND becomes ? 'changes'
        AND (becomes - noted) = (was - noted)
        AND (NEW.workspace, NEW.id, NEW.version, NEW.kind, NEW.agent, NEW.action, NEW.run, NEW.step, NEW.code,
             NEW.executor, NEW.gate, NEW.urgency, NEW.purged, NEW.word)
          = (OLD.workspace, OLD.id, OLD.version + 1, OLD.kind, OLD.agent, OLD.action, OLD.run, OLD.step, OLD.code,
             OLD.executor, OLD.gate, OLD.urgency, OLD.purged, OLD.word)
        AND (NEW.review = OLD.review OR (OLD.review = 'none' AND NEW.review = 'open'))
    THEN
        RETURN NEW;
    END IF;
    IF (becomes -> 'told') IS DISTINCT FROM (was -> 'told') THEN
        IF NOT assentry_told_in_time(was, becomes, coalesce(was -> 'candidate', (
            SELECT a.body::jsonb -> 'candidate' FROM asks a WHERE a.workspace = OLD.workspace AND a.id = OLD.id
        )), OLD.due_at) THEN
            RAISE EXCEPTION 'an agent does not say who may decide' USING ERRCODE = '42501';
        END IF;
    END IF;
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

-- Nor does an agent's log say that a person paused, continued or stopped anything.
CREATE OR REPLACE FUNCTION assentry_agent_says_of_runs() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF assentry_is_agent()
        AND (NEW.kind IN ('run.paused', 'run.continued', 'request.frozen', 'request.thawed')
             OR starts_with(NEW.kind, 'switch.'))
    THEN
        RAISE EXCEPTION 'an agent may not log %', NEW.kind USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END
$$;

-- A run is woken by what can go no further without it, not while that still runs elsewhere. Where nobody knows how it
-- went, the run is woken to see that, and then waits until somebody does.
DROP TRIGGER decisions_wake_runs ON requests;
CREATE TRIGGER decisions_wake_runs AFTER UPDATE OF state ON requests FOR EACH ROW WHEN (
    (OLD.state IN ('pending', 'running', 'unknown') OR (OLD.state = 'approved' AND OLD.executor = 'worker'))
    AND OLD.state <> NEW.state
    AND NOT (NEW.state IN ('pending', 'running') OR (NEW.state = 'approved' AND NEW.executor = 'worker'))
) EXECUTE FUNCTION assentry_wake_runs();

-- What a run says of itself is what its row says, and its scope is what the operator's code set.
CREATE FUNCTION assentry_agent_keeps_scope() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF assentry_is_agent()
        AND (coalesce(NEW.body::jsonb ->> 'state', 'running') <> NEW.state
             OR (TG_OP = 'UPDATE' AND (NEW.body::jsonb -> 'scope') IS DISTINCT FROM (OLD.body::jsonb -> 'scope')))
    THEN
        RAISE EXCEPTION 'an agent works on a run; it does not say what that is or may do' USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER runs_agent_keeps_scope BEFORE INSERT OR UPDATE ON runs FOR EACH ROW
    EXECUTE FUNCTION assentry_agent_keeps_scope();
