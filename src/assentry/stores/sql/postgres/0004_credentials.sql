-- What proves who somebody is, as hashes; and replies that are kept for whoever asks again.
-- Only the server's own login reads and writes it: neither role of roles.sql is given any right to it.
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

CREATE TRIGGER credentials_agent_keeps_out BEFORE INSERT OR UPDATE ON credentials FOR EACH ROW
    EXECUTE FUNCTION assentry_agent_keeps_out();

-- Nor does an agent's log say that anybody was given or lost a way in.
CREATE FUNCTION assentry_agent_proves_nothing() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF assentry_is_agent() AND starts_with(NEW.kind, 'identity.') THEN
        RAISE EXCEPTION 'an agent may not log %', NEW.kind USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER entries_agent_proves_nothing BEFORE INSERT ON entries FOR EACH ROW
    EXECUTE FUNCTION assentry_agent_proves_nothing();

-- What people decided before, for the same agent and action.
CREATE INDEX requests_decided ON requests (workspace, agent, action, id) WHERE word IN ('approve', 'deny', 'modify', 'choose', 'revise');

-- What a search looks at: the words of `title`, each after a space, split and folded before they come here. They are
-- taken as they are: the server's own parser would split some of them again, by rules that depend on its locale.
UPDATE asks SET title = CASE WHEN r.purged THEN '' ELSE
    ' ' || btrim(regexp_replace(asks.title || ' ' || lower(r.code), '[\x01-\x2f\x3a-\x60\x7b-\x7f]+', ' ', 'g')) END
FROM requests r WHERE r.workspace = asks.workspace AND r.id = asks.id;
-- What was asked last is looked through word by word until there is enough of it; not too much, or searches are slow.
CREATE INDEX asks_words ON asks USING gin (array_to_tsvector(string_to_array(btrim(title), ' ')))
    WITH (gin_pending_list_limit = 512);
