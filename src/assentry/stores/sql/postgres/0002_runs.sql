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

-- As its owner, so that whoever decides needs no right to change runs.
CREATE FUNCTION assentry_wake_runs() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE runs SET wakeable = true
    WHERE workspace = NEW.workspace AND state = 'parked'
        AND id IN (SELECT run FROM waits WHERE workspace = NEW.workspace AND request = NEW.id);
    RETURN NULL;
END
$$;

CREATE TRIGGER decisions_wake_runs AFTER UPDATE OF state ON requests FOR EACH ROW
    WHEN (OLD.state = 'pending' AND NEW.state <> 'pending') EXECUTE FUNCTION assentry_wake_runs();

-- An agent does its work and ends it; it does not go on with what a person has paused or stopped.
CREATE FUNCTION assentry_agent_works() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT coalesce(pg_has_role(current_user, to_regrole('assentry_agent')::oid, 'MEMBER'), false)
        OR coalesce(pg_has_role(current_user, to_regrole('assentry_reviewer')::oid, 'MEMBER'), false)
    THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'INSERT' AND NEW.state = 'running' AND NEW.version = 1 THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE' AND (NEW.workspace, NEW.id, NEW.code, NEW.agent, NEW.host, NEW.key, NEW.parent)
            = (OLD.workspace, OLD.id, OLD.code, OLD.agent, OLD.host, OLD.key, OLD.parent)
        AND (CASE OLD.state
            WHEN 'paused' THEN NEW.state IN ('paused', 'finished', 'failed')
            WHEN 'stopping' THEN NEW.state IN ('stopping', 'stopped', 'finished', 'failed')
            WHEN 'running' THEN NEW.state IN ('running', 'parked', 'orphaned', 'finished', 'failed', 'stopping', 'stopped')
            WHEN 'parked' THEN NEW.state IN ('parked', 'running', 'stopped')
            WHEN 'orphaned' THEN NEW.state IN ('running', 'parked', 'orphaned', 'finished', 'failed', 'stopped')
            ELSE false
        END)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'an agent works on a run; it does not go on with what a person has paused or stopped'
        USING ERRCODE = '42501';
END
$$;

CREATE TRIGGER runs_agent_works BEFORE INSERT OR UPDATE ON runs FOR EACH ROW
    EXECUTE FUNCTION assentry_agent_works();

-- Nor does its log say that a person paused or continued one.
CREATE FUNCTION assentry_agent_says_of_runs() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT coalesce(pg_has_role(current_user, to_regrole('assentry_agent')::oid, 'MEMBER'), false)
        OR coalesce(pg_has_role(current_user, to_regrole('assentry_reviewer')::oid, 'MEMBER'), false)
        OR NEW.kind NOT IN ('run.paused', 'run.continued', 'request.frozen', 'request.thawed')
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'an agent may not log %', NEW.kind USING ERRCODE = '42501';
END
$$;

CREATE TRIGGER entries_agent_says_of_runs BEFORE INSERT ON entries FOR EACH ROW
    EXECUTE FUNCTION assentry_agent_says_of_runs();
