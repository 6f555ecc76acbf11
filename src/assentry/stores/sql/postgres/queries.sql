-- Statements of the PostgreSQL store, each under its name. Values are always bound.

-- name: commit
SELECT done, clock FROM assentry_commit(%(changes)s::jsonb);

-- name: notify
SELECT pg_notify('assentry', %(notice)s);

-- name: look
-- One row even if there is no such request: its clock.
SELECT found.ask, found.body, found.id, clock_timestamp() FROM (SELECT 1) one
LEFT JOIN (
    SELECT a.body AS ask, r.body, r.id FROM requests r
    JOIN asks a ON a.workspace = r.workspace AND a.id = r.id
    WHERE r.workspace = %(workspace)s AND r.id = %(id)s
) found ON true;

-- name: lock_request
SELECT a.body, r.body, r.id, r.token FROM requests r
JOIN asks a ON a.workspace = r.workspace AND a.id = r.id
WHERE r.workspace = %(workspace)s AND r.id = %(id)s FOR UPDATE OF r;

-- name: lock_grants
SELECT body, id FROM grants WHERE workspace = %(workspace)s AND id = ANY(%(ids)s) ORDER BY id FOR UPDATE;

-- name: clock
SELECT clock_timestamp();

-- name: clock_and_switches
SELECT clock_timestamp(), ARRAY(
    SELECT body FROM switches WHERE workspace = %(workspace)s AND agent = ANY(%(agents)s::text[])
);

-- name: insert_grant
INSERT INTO grants (workspace, id, version, expires_at, revoked_at, used, spent, body)
VALUES (%(workspace)s, %(id)s, %(version)s, %(expires_at)s, %(revoked_at)s, %(used)s, %(spent)s, %(body)s);

-- name: update_grant
UPDATE grants SET version = %(version)s, expires_at = %(expires_at)s, revoked_at = %(revoked_at)s, used = %(used)s,
    spent = %(spent)s, body = %(body)s
WHERE workspace = %(workspace)s AND id = %(id)s AND version = %(version)s - 1;

-- name: read_request
SELECT a.body, r.body, r.id FROM requests r
JOIN asks a ON a.workspace = r.workspace AND a.id = r.id
WHERE r.workspace = %(workspace)s AND r.id = %(id)s;

-- name: those
SELECT a.body, r.body, r.id FROM requests r
JOIN asks a ON a.workspace = r.workspace AND a.id = r.id
WHERE r.workspace = %(workspace)s AND r.id = ANY(%(ids)s::text[]);

-- name: read_token
SELECT version, token FROM requests WHERE workspace = %(workspace)s AND id = %(id)s;

-- name: by_step
SELECT a.body, r.body, r.id FROM requests r
JOIN asks a ON a.workspace = r.workspace AND a.id = r.id
WHERE r.workspace = %(workspace)s AND r.run = %(run)s AND r.step = %(step)s AND r.run <> '';

-- name: find
-- A range instead of LIKE: it uses the index and takes no wildcards from people. Of very many, some.
SELECT a.body, r.body, r.id FROM (
    (
        SELECT id FROM requests WHERE workspace = %(workspace)s AND code >= %(prefix)s AND code < %(beyond)s
        ORDER BY code LIMIT %(limit)s
    )
    UNION
    (
        SELECT id FROM requests WHERE workspace = %(workspace)s AND id >= %(prefix)s AND id < %(beyond)s
        ORDER BY id DESC LIMIT %(limit)s
    )
    ORDER BY id DESC LIMIT %(limit)s
) f
JOIN requests r ON r.workspace = %(workspace)s AND r.id = f.id
JOIN asks a ON a.workspace = %(workspace)s AND a.id = f.id
ORDER BY r.id DESC;

-- name: due
-- One walk per urgency of what waits for a person, and one of everything else.
SELECT a.body, r.body, r.id FROM (
    (
        SELECT id, due_at FROM requests
        WHERE workspace = %(workspace)s AND state <> 'pending' AND due_at <= statement_timestamp()
            AND due_at < '9999-01-01 00:00:00+00'
        ORDER BY due_at, id LIMIT %(limit)s
    )
    UNION ALL
    SELECT waiting.id, waiting.due_at FROM generate_series(0, 3) wanted (urgency)
    CROSS JOIN LATERAL (
        SELECT id, due_at FROM requests
        WHERE workspace = %(workspace)s AND state = 'pending' AND requests.urgency = wanted.urgency
            AND due_at <= statement_timestamp()
        ORDER BY due_at, id LIMIT %(limit)s
    ) waiting
    ORDER BY due_at, id LIMIT %(limit)s
) f
JOIN requests r ON r.workspace = %(workspace)s AND r.id = f.id
JOIN asks a ON a.workspace = %(workspace)s AND a.id = f.id
ORDER BY r.due_at, r.id;

-- name: next_due
SELECT min(due_at) FROM (
    (
        SELECT due_at FROM requests
        WHERE workspace = %(workspace)s AND state <> 'pending' AND due_at < '9999-01-01 00:00:00+00'
        ORDER BY due_at LIMIT 1
    )
    UNION ALL
    SELECT waiting.due_at FROM generate_series(0, 3) wanted (urgency)
    CROSS JOIN LATERAL (
        SELECT due_at FROM requests
        WHERE workspace = %(workspace)s AND state = 'pending' AND requests.urgency = wanted.urgency
            AND due_at < '9999-01-01 00:00:00+00'
        ORDER BY due_at LIMIT 1
    ) waiting
    UNION ALL
    (
        SELECT due_at FROM runs WHERE workspace = %(workspace)s AND due_at < '9999-01-01 00:00:00+00'
        ORDER BY due_at LIMIT 1
    )
) f;

-- name: runnable
SELECT a.body, r.body, r.id FROM unnest(%(actions)s::text[]) wanted (action)
CROSS JOIN LATERAL (
    SELECT workspace, id, body FROM requests
    WHERE workspace = %(workspace)s AND requests.action = wanted.action AND runnable
    ORDER BY id LIMIT %(limit)s
) r
JOIN asks a ON a.workspace = r.workspace AND a.id = r.id
ORDER BY r.id LIMIT %(limit)s;

-- name: policy
SELECT version, text, applied_by, applied_at FROM policies
WHERE workspace = %(workspace)s ORDER BY version DESC LIMIT %(limit)s;

-- name: lock_policy
-- Versions are dense: whoever applies one waits for whoever is applying another.
SELECT pg_advisory_xact_lock(pg_catalog.hashtextextended('assentry policy ' || %(workspace)s, 0::bigint));

-- name: share_policy
-- The lock that `lock_policy` waits for; in a statement of its own, so that the version is read once it is held.
SELECT assentry_policy(%(workspace)s);

-- name: insert_policy
INSERT INTO policies (workspace, version, text, applied_by, applied_at)
VALUES (%(workspace)s, %(version)s, %(text)s, %(applied_by)s, %(applied_at)s);

-- name: live_grants
SELECT body, id FROM grants
WHERE workspace = %(workspace)s AND expires_at > statement_timestamp() AND revoked_at > '9999-01-01 00:00:00+00'
ORDER BY id DESC;

-- name: all_grants
SELECT body, id FROM grants WHERE workspace = %(workspace)s ORDER BY id DESC;

-- name: lock_sequence
SELECT pg_advisory_xact_lock(pg_catalog.hashtextextended('assentry entries ' || %(workspace)s, 0::bigint));

-- name: has_fresh
SELECT EXISTS (SELECT 1 FROM entries WHERE workspace = %(workspace)s AND idx IS NULL);

-- name: sequence
-- Dense, in the order of ids. A transaction still in flight may hold a lower id; it gets a later index. That never
-- turns entries of one request round: the later one was written by a transaction that waited for the row lock of
-- the earlier one, so when the later one can be seen here, the earlier one can be too, and has the lower id.
WITH fresh AS (
    SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM entries
    WHERE workspace = %(workspace)s AND idx IS NULL
), base AS (
    SELECT coalesce(max(idx) + 1, 0) AS start FROM entries WHERE workspace = %(workspace)s
)
UPDATE entries e SET idx = base.start + fresh.place FROM fresh, base
WHERE e.workspace = %(workspace)s AND e.id = fresh.id;

-- name: next_index
SELECT idx + 1 FROM entries WHERE workspace = %(workspace)s AND idx IS NOT NULL ORDER BY idx DESC LIMIT 1;

-- name: entries
SELECT idx, text, leaf FROM entries
WHERE workspace = %(workspace)s AND idx >= %(start)s ORDER BY idx LIMIT %(limit)s;

-- name: entries_back
SELECT idx, text, leaf FROM entries
WHERE workspace = %(workspace)s AND idx < %(start)s ORDER BY idx DESC LIMIT %(limit)s;

-- name: entries_of
SELECT idx, text, leaf FROM entries
WHERE workspace = %(workspace)s AND subject = %(subject)s AND idx >= %(start)s ORDER BY idx LIMIT %(limit)s;

-- name: entries_of_back
SELECT idx, text, leaf FROM entries
WHERE workspace = %(workspace)s AND subject = %(subject)s AND idx < %(start)s ORDER BY idx DESC LIMIT %(limit)s;

-- name: put_checkpoint
INSERT INTO checkpoints (workspace, size, text, key_id, signature)
VALUES (%(workspace)s, %(size)s, %(text)s, %(key_id)s, %(signature)s)
ON CONFLICT (workspace, size, key_id) DO UPDATE SET text = excluded.text, signature = excluded.signature;

-- name: checkpoints
SELECT workspace, size, text, key_id, signature FROM checkpoints
WHERE workspace = %(workspace)s ORDER BY size;

-- name: purgeable
SELECT a.body, r.body, r.id, r.changed_at FROM requests r
JOIN asks a ON a.workspace = r.workspace AND a.id = r.id
WHERE r.workspace = %(workspace)s AND r.ended AND NOT r.purged AND r.changed_at < %(before)s
    AND (r.changed_at, r.id) > (%(changed_at)s, %(id)s)
ORDER BY r.changed_at, r.id LIMIT %(limit)s FOR UPDATE OF r;

-- name: purge_ask
UPDATE asks SET title = %(title)s, body = %(ask)s WHERE workspace = %(workspace)s AND id = %(id)s;

-- name: identity
SELECT value FROM about WHERE key = 'identity';

-- name: lock_run
SELECT body, id FROM runs WHERE workspace = %(workspace)s AND id = %(id)s FOR UPDATE;

-- name: read_run
SELECT body, id FROM runs WHERE workspace = %(workspace)s AND id = %(id)s;

-- name: insert_run
INSERT INTO runs (workspace, id, code, version, state, agent, host, key, parent, open, wakeable, due_at, changed_at, body)
VALUES (%(workspace)s, %(id)s, %(code)s, %(version)s, %(state)s, %(agent)s, %(host)s, %(key)s, %(parent)s, %(open)s,
    false, %(due_at)s, %(changed_at)s, %(body)s);

-- name: update_run
UPDATE runs SET version = %(version)s, state = %(state)s, open = %(open)s, wakeable = %(wakeable)s, due_at = %(due_at)s,
    changed_at = %(changed_at)s, body = %(body)s
WHERE workspace = %(workspace)s AND id = %(id)s AND version = %(version)s - 1;

-- name: forget_waits
DELETE FROM waits WHERE workspace = %(workspace)s AND run = %(id)s;

-- name: wait_for
INSERT INTO waits (workspace, request, run) VALUES (%(workspace)s, %(request)s, %(id)s) ON CONFLICT DO NOTHING;

-- name: hold_still
-- Whoever decides one of these waits for us, and then finds what we wrote.
SELECT 1 FROM requests WHERE workspace = %(workspace)s AND id = ANY(%(requests)s) ORDER BY id FOR SHARE;

-- name: is_decided
-- Whether anything that a run would wait for can go no further without it, or is not there.
SELECT count(*) < %(wanted)s FROM requests
WHERE workspace = %(workspace)s AND id = ANY(%(requests)s)
    AND (state IN ('pending', 'running', 'unknown') OR (state = 'approved' AND executor = 'worker'));

-- name: put_snapshot
INSERT INTO snapshots (workspace, id, text) VALUES (%(workspace)s, %(id)s, %(text)s)
ON CONFLICT (workspace, id) DO UPDATE SET text = excluded.text;

-- name: snapshot
SELECT text FROM snapshots WHERE workspace = %(workspace)s AND id = %(id)s;

-- name: run_by_key
SELECT body, id FROM runs WHERE workspace = %(workspace)s AND agent = %(agent)s AND key = %(key)s AND key <> ''
ORDER BY id DESC LIMIT 1;

-- name: find_runs
SELECT r.body, r.id FROM (
    (
        SELECT id FROM runs WHERE workspace = %(workspace)s AND code >= %(prefix)s AND code < %(beyond)s
        ORDER BY code LIMIT %(limit)s
    )
    UNION
    (
        SELECT id FROM runs WHERE workspace = %(workspace)s AND id >= %(prefix)s AND id < %(beyond)s
        ORDER BY id DESC LIMIT %(limit)s
    )
    ORDER BY id DESC LIMIT %(limit)s
) f
JOIN runs r ON r.workspace = %(workspace)s AND r.id = f.id
ORDER BY r.id DESC;

-- name: runs
SELECT body, id FROM runs WHERE workspace = %(workspace)s AND id < %(after)s ORDER BY id DESC LIMIT %(limit)s;

-- name: runs_in_state
SELECT body, id FROM runs
WHERE workspace = %(workspace)s AND state = %(state)s AND id < %(after)s ORDER BY id DESC LIMIT %(limit)s;

-- name: runs_of_agent
SELECT body, id FROM runs
WHERE workspace = %(workspace)s AND agent = %(agent)s AND id < %(after)s ORDER BY id DESC LIMIT %(limit)s;

-- name: runs_of_parent
SELECT body, id FROM runs
WHERE workspace = %(workspace)s AND parent = %(parent)s AND parent <> '' AND id < %(after)s
ORDER BY id DESC LIMIT %(limit)s;

-- name: resumable
SELECT body, id FROM runs WHERE workspace = %(workspace)s AND host = %(host)s AND wakeable
ORDER BY changed_at, id LIMIT %(limit)s;

-- name: overdue_runs
SELECT body, id FROM runs WHERE workspace = %(workspace)s AND due_at <= statement_timestamp()
    AND due_at < '9999-01-01 00:00:00+00'
ORDER BY due_at, id LIMIT %(limit)s;

-- name: switches
SELECT body, agent FROM switches WHERE workspace = %(workspace)s ORDER BY agent;

-- name: put_switch
INSERT INTO switches (workspace, agent, version, body)
VALUES (%(workspace)s, %(agent)s, %(version)s, %(body)s)
ON CONFLICT (workspace, agent) DO UPDATE SET version = excluded.version, body = excluded.body
WHERE switches.version = excluded.version - 1;

-- name: by_content
SELECT a.body, r.body, r.id FROM requests r
JOIN asks a ON a.workspace = r.workspace AND a.id = r.id
WHERE r.workspace = %(workspace)s AND r.agent = %(agent)s AND r.run = '' AND r.step = %(step)s AND r.state = 'pending';

-- name: spent
SELECT coalesce(sum((body::jsonb ->> 'spend')::numeric), 0) FROM runs
WHERE workspace = %(workspace)s AND agent = %(agent)s AND id >= %(since)s AND id <> %(but)s;

-- name: pressure
SELECT (
    SELECT count(*) FROM (
        SELECT 1 FROM requests
        WHERE workspace = %(workspace)s AND agent = %(agent)s AND state = 'pending' LIMIT %(most)s
    ) f
), (
    SELECT count(*) FROM (
        SELECT 1 FROM requests
        WHERE workspace = %(workspace)s AND id >= %(since)s AND agent = %(agent)s
            AND gate NOT IN ('run', 'watch', 'forbid')
        LIMIT %(most)s
    ) f
);

-- name: insert_credential
INSERT INTO credentials (workspace, kind, id, holder, version, expires_at, body)
VALUES (%(workspace)s, %(kind)s, %(id)s, %(holder)s, %(version)s, %(expires_at)s, %(body)s)
ON CONFLICT DO NOTHING;

-- name: update_credential
UPDATE credentials SET version = %(version)s, expires_at = %(expires_at)s, body = %(body)s
WHERE workspace = %(workspace)s AND kind = %(kind)s AND id = %(id)s AND holder = %(holder)s
    AND version = %(version)s - 1;

-- name: credential
SELECT body, id FROM credentials WHERE workspace = %(workspace)s AND kind = %(kind)s AND id = %(id)s;

-- name: credentials
SELECT body, id FROM credentials WHERE workspace = %(workspace)s AND kind = %(kind)s AND id > %(after)s
ORDER BY id LIMIT %(limit)s;

-- name: credentials_of
SELECT body, id FROM credentials WHERE workspace = %(workspace)s AND kind = %(kind)s AND holder = %(holder)s
    AND id > %(after)s
ORDER BY id LIMIT %(limit)s;

-- name: forget_credentials
DELETE FROM credentials WHERE workspace = %(workspace)s AND kind IN ('session', 'link', 'challenge', 'reply')
    AND expires_at < %(before)s;

-- name: similar
SELECT a.body, r.body, r.id FROM requests r
JOIN asks a ON a.workspace = r.workspace AND a.id = r.id
WHERE r.workspace = %(workspace)s AND r.agent = %(agent)s AND r.action = %(action)s
    AND r.word IN ('approve', 'deny', 'modify', 'choose', 'revise')
ORDER BY r.id DESC LIMIT %(limit)s;

-- name: insert_proposal
INSERT INTO proposals (workspace, code, state, body)
VALUES (%(workspace)s, %(code)s, %(state)s, %(body)s)
ON CONFLICT DO NOTHING;

-- name: end_proposal
UPDATE proposals SET state = %(state)s, body = %(body)s
WHERE workspace = %(workspace)s AND code = %(code)s AND state = 'waiting';

-- name: proposal
SELECT body, code FROM proposals WHERE workspace = %(workspace)s AND code = %(code)s;

-- name: proposals
SELECT body, code FROM proposals WHERE workspace = %(workspace)s AND state = 'waiting'
ORDER BY seq DESC LIMIT %(limit)s;

-- name: insert_caller
INSERT INTO callers (workspace, id, until, life, gone)
VALUES (%(workspace)s, %(id)s, clock_timestamp() + %(life)s, %(life)s, false)
ON CONFLICT (workspace, id) DO UPDATE SET until = excluded.until, life = excluded.life WHERE NOT callers.gone;

-- name: expect_caller
INSERT INTO callers (workspace, id, until, life, gone)
VALUES (%(workspace)s, %(id)s, clock_timestamp() + %(life)s, %(life)s, false)
ON CONFLICT DO NOTHING;

-- name: renew_caller
UPDATE callers SET until = clock_timestamp() + %(life)s, life = %(life)s
WHERE workspace = %(workspace)s AND id = %(id)s AND NOT gone;

-- name: named_callers
-- From one value to the next in the index: it costs as much as there are processes that wait, however much they wait for.
WITH RECURSIVE named (callers) AS (
    (SELECT callers FROM requests WHERE workspace = %(workspace)s AND callers <> '' ORDER BY callers LIMIT 1)
    UNION ALL
    SELECT (
        SELECT r.callers FROM requests r
        WHERE r.workspace = %(workspace)s AND r.callers > named.callers AND r.callers <> ''
        ORDER BY r.callers LIMIT 1
    )
    FROM named WHERE named.callers IS NOT NULL
)
SELECT callers FROM named WHERE callers IS NOT NULL;

-- name: known_callers
-- While the server was down nobody could show that they live, so all of them have another lease after it started.
SELECT id, gone OR (until <= clock_timestamp() AND pg_postmaster_start_time() + life <= clock_timestamp())
FROM callers WHERE workspace = %(workspace)s ORDER BY id;

-- name: close_callers
UPDATE callers SET gone = true WHERE workspace = %(workspace)s AND NOT gone
    AND until <= clock_timestamp() AND pg_postmaster_start_time() + life <= clock_timestamp();

-- name: closed_callers
SELECT id FROM callers WHERE workspace = %(workspace)s AND gone ORDER BY id;

-- name: forget_caller
DELETE FROM callers WHERE workspace = %(workspace)s AND id = %(id)s AND gone;

-- name: waited_for_by
-- Asked only when a process is taken for gone, so it looks through what is open instead of keeping an index.
SELECT a.body, r.body, r.id FROM requests r JOIN asks a ON a.workspace = r.workspace AND a.id = r.id
WHERE r.workspace = %(workspace)s AND r.state IN ('pending', 'approved') AND strpos(r.body, %(caller)s) > 0
    AND r.id > %(after)s
ORDER BY r.id LIMIT %(limit)s;
