-- Statements of the SQLite store, each under its name. Values are always bound.

-- name: read_moving
SELECT seq, purged, body FROM requests WHERE workspace = :workspace AND id = :id;

-- name: read_ask
SELECT body FROM asks WHERE seq = :seq;

-- name: read_request
SELECT a.body, r.body, r.id FROM requests r
JOIN asks a ON a.seq = r.seq
WHERE r.workspace = :workspace AND r.id = :id;

-- name: those
SELECT a.body, r.body, r.id FROM requests r
JOIN asks a ON a.seq = r.seq
WHERE r.workspace = :workspace AND r.id IN (SELECT value FROM json_each(:ids));

-- name: insert_request
INSERT INTO requests (
    workspace, id, version, state, urgency, gate, kind, agent, action, run, step, code, executor, review, word,
    runnable, ended, purged, due_at, changed_at, callers, body
) VALUES (
    :workspace, :id, :version, :state, :urgency, :gate, :kind, :agent, :action, :run, :step, :code, :executor,
    :review, :word, :runnable, :ended, :purged, :due_at, :changed_at, :callers, :body
);

-- name: insert_ask
INSERT INTO asks (seq, title, body) VALUES (:seq, :title, :ask);

-- name: update_request
UPDATE requests SET
    version = :version, state = :state, urgency = :urgency, gate = :gate, review = :review, word = :word,
    runnable = :runnable, ended = :ended, purged = :purged, due_at = :due_at,
    changed_at = :changed_at, callers = :callers, body = :body
WHERE workspace = :workspace AND id = :id AND version = :version - 1;

-- name: update_action
-- Apart, because an index is rewritten whenever a statement names its column, changed or not.
UPDATE requests SET action = :action WHERE workspace = :workspace AND id = :id AND action <> :action;

-- name: purge_ask
UPDATE asks SET title = :title, body = :ask
WHERE seq = (SELECT seq FROM requests WHERE workspace = :workspace AND id = :id);

-- name: by_step
SELECT a.body, r.body, r.id FROM requests r
JOIN asks a ON a.seq = r.seq
WHERE r.workspace = :workspace AND r.run = :run AND r.step = :step AND r.run <> '';

-- name: find
-- A range instead of LIKE: it uses the index and takes no wildcards from people. Of very many, some.
SELECT a.body, r.body, r.id FROM (
    SELECT * FROM (
        SELECT seq, id FROM requests WHERE workspace = :workspace AND code >= :prefix AND code < :beyond
        ORDER BY code LIMIT :limit
    )
    UNION
    SELECT * FROM (
        SELECT seq, id FROM requests WHERE workspace = :workspace AND id >= :prefix AND id < :beyond
        ORDER BY id DESC LIMIT :limit
    )
    ORDER BY id DESC LIMIT :limit
) f
JOIN requests r ON r.seq = f.seq
JOIN asks a ON a.seq = f.seq
ORDER BY r.id DESC;

-- name: due
-- One walk per urgency of what waits for a person, and one of everything else.
SELECT a.body, r.body, r.id FROM (
    SELECT * FROM (
        SELECT seq, due_at, id FROM requests INDEXED BY requests_due
        WHERE workspace = :workspace AND state <> 'pending' AND due_at <= :now AND due_at < 9223372036854775807
        ORDER BY due_at, id LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT seq, due_at, id FROM requests INDEXED BY requests_pending
        WHERE workspace = :workspace AND state = 'pending' AND urgency = 0 AND due_at <= :now
        ORDER BY due_at, id LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT seq, due_at, id FROM requests INDEXED BY requests_pending
        WHERE workspace = :workspace AND state = 'pending' AND urgency = 1 AND due_at <= :now
        ORDER BY due_at, id LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT seq, due_at, id FROM requests INDEXED BY requests_pending
        WHERE workspace = :workspace AND state = 'pending' AND urgency = 2 AND due_at <= :now
        ORDER BY due_at, id LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT seq, due_at, id FROM requests INDEXED BY requests_pending
        WHERE workspace = :workspace AND state = 'pending' AND urgency = 3 AND due_at <= :now
        ORDER BY due_at, id LIMIT :limit
    )
    ORDER BY due_at, id LIMIT :limit
) f
JOIN requests r ON r.seq = f.seq
JOIN asks a ON a.seq = f.seq
ORDER BY r.due_at, r.id;

-- name: next_due
SELECT min(due_at) FROM (
    SELECT * FROM (
        SELECT due_at FROM requests INDEXED BY requests_due
        WHERE workspace = :workspace AND state <> 'pending' AND due_at < 9223372036854775807
        ORDER BY due_at LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT due_at FROM requests INDEXED BY requests_pending
        WHERE workspace = :workspace AND state = 'pending' AND urgency = 0 ORDER BY due_at LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT due_at FROM requests INDEXED BY requests_pending
        WHERE workspace = :workspace AND state = 'pending' AND urgency = 1 ORDER BY due_at LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT due_at FROM requests INDEXED BY requests_pending
        WHERE workspace = :workspace AND state = 'pending' AND urgency = 2 ORDER BY due_at LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT due_at FROM requests INDEXED BY requests_pending
        WHERE workspace = :workspace AND state = 'pending' AND urgency = 3 ORDER BY due_at LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT due_at FROM runs INDEXED BY runs_due
        WHERE workspace = :workspace AND due_at < 9223372036854775807 ORDER BY due_at LIMIT 1
    )
) f;

-- name: runnable
SELECT a.body, r.body, r.id FROM requests r INDEXED BY requests_runnable
JOIN asks a ON a.seq = r.seq
WHERE r.workspace = :workspace AND r.action = :action AND r.runnable = 1
ORDER BY r.id LIMIT :limit;

-- name: policy
SELECT version, text, applied_by, applied_at FROM policies
WHERE workspace = :workspace ORDER BY version DESC LIMIT :limit;

-- name: insert_policy
INSERT INTO policies (workspace, version, text, applied_by, applied_at)
VALUES (:workspace, :version, :text, :applied_by, :applied_at);

-- name: read_grant
SELECT body FROM grants WHERE workspace = :workspace AND id = :id;

-- name: insert_grant
INSERT INTO grants (workspace, id, version, expires_at, revoked_at, used, spent, body)
VALUES (:workspace, :id, :version, :expires_at, :revoked_at, :used, :spent, :body);

-- name: update_grant
UPDATE grants SET version = :version, expires_at = :expires_at, revoked_at = :revoked_at, used = :used,
    spent = :spent, body = :body
WHERE workspace = :workspace AND id = :id AND version = :version - 1;

-- name: live_grants
SELECT body, id FROM grants
WHERE workspace = :workspace AND expires_at > :now AND revoked_at = 9223372036854775807
ORDER BY id DESC;

-- name: all_grants
SELECT body, id FROM grants WHERE workspace = :workspace ORDER BY id DESC;

-- name: next_index
SELECT idx + 1 FROM entries WHERE workspace = :workspace ORDER BY idx DESC LIMIT 1;

-- name: insert_entry
INSERT INTO entries (workspace, idx, subject, kind, at, text, leaf)
VALUES (:workspace, :idx, :subject, :kind, :at, :text, :leaf);

-- name: entries
SELECT idx, text, leaf FROM entries WHERE workspace = :workspace AND idx >= :start ORDER BY idx LIMIT :limit;

-- name: entries_back
SELECT idx, text, leaf FROM entries WHERE workspace = :workspace AND idx < :start ORDER BY idx DESC LIMIT :limit;

-- name: entries_of
SELECT idx, text, leaf FROM entries
WHERE workspace = :workspace AND subject = :subject AND idx >= :start ORDER BY idx LIMIT :limit;

-- name: entries_of_back
SELECT idx, text, leaf FROM entries
WHERE workspace = :workspace AND subject = :subject AND idx < :start ORDER BY idx DESC LIMIT :limit;

-- name: put_checkpoint
INSERT OR REPLACE INTO checkpoints (workspace, size, text, key_id, signature)
VALUES (:workspace, :size, :text, :key_id, :signature);

-- name: checkpoints
SELECT workspace, size, text, key_id, signature FROM checkpoints WHERE workspace = :workspace ORDER BY size;

-- name: purgeable
SELECT a.body, r.body, r.id, r.changed_at FROM requests r INDEXED BY requests_unpurged
JOIN asks a ON a.seq = r.seq
WHERE r.workspace = :workspace AND r.ended = 1 AND r.purged = 0 AND r.changed_at < :before
    AND (r.changed_at, r.id) > (:changed_at, :id)
ORDER BY r.changed_at, r.id LIMIT :limit;

-- name: identity
SELECT value FROM about WHERE key = 'identity';

-- name: last_entry
SELECT coalesce(max(id), 0) FROM entries;

-- name: news
SELECT e.id, e.kind, e.subject, coalesce(r.version, n.version) FROM entries e
LEFT JOIN requests r ON r.workspace = e.workspace AND r.id = e.subject
LEFT JOIN runs n ON n.workspace = e.workspace AND n.id = e.subject
WHERE e.id > :last ORDER BY e.id LIMIT :limit;

-- name: read_run
SELECT body, id FROM runs WHERE workspace = :workspace AND id = :id;

-- name: insert_run
INSERT INTO runs (workspace, id, code, version, state, agent, host, key, parent, open, wakeable, due_at, changed_at, body)
VALUES (:workspace, :id, :code, :version, :state, :agent, :host, :key, :parent, :open, 0, :due_at, :changed_at, :body);

-- name: update_run
UPDATE runs SET version = :version, state = :state, open = :open, wakeable = :wakeable, due_at = :due_at,
    changed_at = :changed_at, body = :body
WHERE workspace = :workspace AND id = :id AND version = :version - 1;

-- name: forget_waits
DELETE FROM waits WHERE workspace = :workspace AND run = :id;

-- name: wait_for
INSERT OR IGNORE INTO waits (workspace, request, run) VALUES (:workspace, :request, :id);

-- name: is_decided
-- Whether anything that a run would wait for can go no further without it, or is not there.
SELECT count(*) < :wanted FROM requests
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:requests))
    AND (state IN ('pending', 'running', 'unknown') OR (state = 'approved' AND executor = 'worker'));

-- name: put_snapshot
INSERT INTO snapshots (workspace, id, text) VALUES (:workspace, :id, :text)
ON CONFLICT (workspace, id) DO UPDATE SET text = excluded.text;

-- name: snapshot
SELECT text FROM snapshots WHERE workspace = :workspace AND id = :id;

-- name: run_by_key
SELECT body, id FROM runs WHERE workspace = :workspace AND agent = :agent AND key = :key AND key <> ''
ORDER BY id DESC LIMIT 1;

-- name: find_runs
SELECT r.body, r.id FROM (
    SELECT * FROM (
        SELECT id FROM runs WHERE workspace = :workspace AND code >= :prefix AND code < :beyond ORDER BY code LIMIT :limit
    )
    UNION
    SELECT * FROM (
        SELECT id FROM runs WHERE workspace = :workspace AND id >= :prefix AND id < :beyond ORDER BY id DESC LIMIT :limit
    )
    ORDER BY id DESC LIMIT :limit
) f
JOIN runs r ON r.workspace = :workspace AND r.id = f.id
ORDER BY r.id DESC;

-- name: runs
SELECT body, id FROM runs WHERE workspace = :workspace AND id < :after ORDER BY id DESC LIMIT :limit;

-- name: runs_in_state
SELECT body, id FROM runs INDEXED BY runs_state
WHERE workspace = :workspace AND state = :state AND id < :after ORDER BY id DESC LIMIT :limit;

-- name: runs_of_agent
SELECT body, id FROM runs INDEXED BY runs_agent
WHERE workspace = :workspace AND agent = :agent AND id < :after ORDER BY id DESC LIMIT :limit;

-- name: runs_of_parent
SELECT body, id FROM runs INDEXED BY runs_parent
WHERE workspace = :workspace AND parent = :parent AND parent <> '' AND id < :after ORDER BY id DESC LIMIT :limit;

-- name: resumable
SELECT body, id FROM runs INDEXED BY runs_wakeable
WHERE workspace = :workspace AND host = :host AND wakeable = 1 ORDER BY changed_at, id LIMIT :limit;

-- name: overdue_runs
SELECT body, id FROM runs INDEXED BY runs_due
WHERE workspace = :workspace AND due_at <= :now AND due_at < 9223372036854775807 ORDER BY due_at, id LIMIT :limit;

-- name: switches
SELECT body, agent FROM switches WHERE workspace = :workspace ORDER BY agent;

-- name: put_switch
INSERT INTO switches (workspace, agent, version, body)
VALUES (:workspace, :agent, :version, :body)
ON CONFLICT (workspace, agent) DO UPDATE SET version = excluded.version, body = excluded.body
WHERE switches.version = excluded.version - 1;

-- name: by_content
SELECT a.body, r.body, r.id FROM requests r
JOIN asks a ON a.seq = r.seq
WHERE r.workspace = :workspace AND r.agent = :agent AND r.run = '' AND r.step = :step AND r.state = 'pending';

-- name: spent
SELECT coalesce(sum(CAST(json_extract(body, '$.spend') AS REAL)), 0) FROM runs INDEXED BY runs_agent
WHERE workspace = :workspace AND agent = :agent AND id >= :since AND id <> :but;

-- name: pressure
SELECT (
    SELECT count(*) FROM (
        SELECT 1 FROM requests INDEXED BY requests_waiting
        WHERE workspace = :workspace AND agent = :agent AND state = 'pending' LIMIT :most
    ) f
), (
    SELECT count(*) FROM (
        SELECT 1 FROM requests INDEXED BY requests_id
        WHERE workspace = :workspace AND id >= :since AND agent = :agent
            AND gate NOT IN ('run', 'watch', 'forbid')
        LIMIT :most
    ) f
);

-- name: insert_credential
INSERT INTO credentials (workspace, kind, id, holder, version, expires_at, body)
VALUES (:workspace, :kind, :id, :holder, :version, :expires_at, :body)
ON CONFLICT DO NOTHING;

-- name: update_credential
UPDATE credentials SET version = :version, expires_at = :expires_at, body = :body
WHERE workspace = :workspace AND kind = :kind AND id = :id AND holder = :holder
    AND version = :version - 1;

-- name: credential
SELECT body, id FROM credentials WHERE workspace = :workspace AND kind = :kind AND id = :id;

-- name: credentials
SELECT body, id FROM credentials WHERE workspace = :workspace AND kind = :kind AND id > :after
ORDER BY id LIMIT :limit;

-- name: credentials_of
SELECT body, id FROM credentials WHERE workspace = :workspace AND kind = :kind AND holder = :holder
    AND id > :after
ORDER BY id LIMIT :limit;

-- name: forget_credentials
DELETE FROM credentials WHERE workspace = :workspace AND kind IN ('session', 'link', 'challenge', 'reply')
    AND expires_at < :before;

-- name: similar
SELECT a.body, r.body, r.id FROM requests r
JOIN asks a ON a.seq = r.seq
WHERE r.workspace = :workspace AND r.agent = :agent AND r.action = :action
    AND r.word IN ('approve', 'deny', 'modify', 'choose', 'revise')
ORDER BY r.id DESC LIMIT :limit;

-- name: insert_proposal
INSERT INTO proposals (workspace, code, state, body)
VALUES (:workspace, :code, :state, :body)
ON CONFLICT DO NOTHING;

-- name: end_proposal
UPDATE proposals SET state = :state, body = :body
WHERE workspace = :workspace AND code = :code AND state = 'waiting';

-- name: proposal
SELECT body, code FROM proposals WHERE workspace = :workspace AND code = :code;

-- name: proposals
SELECT body, code FROM proposals WHERE workspace = :workspace AND state = 'waiting'
ORDER BY seq DESC LIMIT :limit;

-- name: insert_caller
INSERT INTO callers (workspace, id, until, gone) VALUES (:workspace, :id, :until, 0)
ON CONFLICT (workspace, id) DO UPDATE SET until = excluded.until WHERE gone = 0;

-- name: expect_caller
INSERT INTO callers (workspace, id, until, gone) VALUES (:workspace, :id, :until, 0) ON CONFLICT DO NOTHING;

-- name: renew_caller
UPDATE callers SET until = :until WHERE workspace = :workspace AND id = :id AND gone = 0;

-- name: named_callers
-- From one value to the next in the index: it costs as much as there are processes that wait, however much they wait for.
WITH RECURSIVE named (callers) AS (
    SELECT min(callers) FROM requests INDEXED BY requests_callers WHERE workspace = :workspace AND callers <> ''
    UNION ALL
    SELECT (
        SELECT min(r.callers) FROM requests r INDEXED BY requests_callers
        WHERE r.workspace = :workspace AND r.callers > named.callers AND r.callers <> ''
    )
    FROM named WHERE named.callers IS NOT NULL
)
SELECT callers FROM named WHERE callers IS NOT NULL;

-- name: known_callers
SELECT id, gone = 1 OR until <= :now FROM callers WHERE workspace = :workspace ORDER BY id;

-- name: close_callers
UPDATE callers SET gone = 1 WHERE workspace = :workspace AND gone = 0 AND until <= :now;

-- name: closed_callers
SELECT id FROM callers WHERE workspace = :workspace AND gone = 1 ORDER BY id;

-- name: forget_caller
DELETE FROM callers WHERE workspace = :workspace AND id = :id AND gone = 1;

-- name: waited_for_by
-- Asked only when a process is taken for gone, so it looks through what is open instead of keeping an index.
SELECT a.body, r.body, r.id FROM requests r JOIN asks a ON a.seq = r.seq
WHERE r.workspace = :workspace AND r.state IN ('pending', 'approved') AND instr(r.body, :caller) > 0
    AND r.id > :after
ORDER BY r.id LIMIT :limit;
