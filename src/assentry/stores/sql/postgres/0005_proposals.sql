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

CREATE TRIGGER proposals_agent_keeps_out BEFORE INSERT OR UPDATE ON proposals FOR EACH ROW
    EXECUTE FUNCTION assentry_agent_keeps_out();

-- It only ends, once, and nobody makes it wait again.
CREATE FUNCTION assentry_proposal_ends() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
