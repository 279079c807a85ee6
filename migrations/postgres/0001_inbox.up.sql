-- Everything of the inbox lives in its own schema, inside the database of the service's own tables,
-- because a message's receipt and its effect must commit together.
CREATE SCHEMA IF NOT EXISTS inbox;

-- A subscription is a durable name. Its number is what rows carry: 4 bytes instead of a text.
CREATE TABLE inbox.subscriptions (
    -- At random: on a replica that was promoted without a row of this table, the next number of a sequence
    -- would go to another subscription, while a process still uses it for the first one (P1).
    id             integer PRIMARY KEY DEFAULT 1 + floor(random() * 2147483646)::integer,
    name           text NOT NULL,
    -- Bound to one consumer group: two groups would each deliver everything.
    consumer_group text NOT NULL,
    -- Another rule would give old messages new ids or another order: it is refused.
    id_rule        text NOT NULL,
    key_rule       text NOT NULL,
    registered_at  timestamptz NOT NULL DEFAULT now(),
    -- Set when a person removes it. The row stays: its number is never given again, and whoever still
    -- runs its handler is told.
    removed_at     timestamptz
);
CREATE UNIQUE INDEX subscriptions_name ON inbox.subscriptions (name) WHERE removed_at IS NULL;

-- One row per topic partition of a group: who owns it, and how often its watermark was flushed.
CREATE TABLE inbox.partitions (
    id             integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer_group text NOT NULL,
    topic          text NOT NULL,
    partition      integer NOT NULL,
    -- The random token of the present ownership. Every transaction checks it (P4).
    epoch          uuid,
    -- The server on which it was taken over: a replica that was promoted since may lack what this one
    -- had, so an ownership does not outlive its server (P10).
    server         text,
    -- Raised with each flush, and given to Kafka as commit metadata: a number in Kafka above this
    -- one shows that this database went back (P10).
    flush_number   bigint NOT NULL DEFAULT 0 CHECK (flush_number >= 0),
    -- Raised when a person accepts that the partition's log is not the old one.
    incarnation    integer NOT NULL DEFAULT 1 CHECK (incarnation >= 1),
    owned_since    timestamptz,
    -- Which log this is: what the broker said first. Ids made of offsets carry this cluster id, and
    -- a log with another cluster or topic id is not consumed until a person accepts it (P10). The
    -- topic id is null where no broker told one.
    cluster        text,
    topic_id       text,
    -- The last finished record, with its timestamp in milliseconds since 1970: in a log that was cut
    -- or made anew there is another one at its offset, if any.
    last_offset    bigint,
    last_time      bigint,
    UNIQUE (consumer_group, topic, partition)
);

-- Per subscription and partition: every record below the watermark is finished (P2).
CREATE TABLE inbox.watermarks (
    subscription_id   integer NOT NULL REFERENCES inbox.subscriptions (id),
    partition_id      integer NOT NULL REFERENCES inbox.partitions (id),
    -- Where the subscription began here. It never moves.
    first_watermark   bigint NOT NULL CHECK (first_watermark >= 0),
    watermark         bigint NOT NULL,
    -- The last finished record's timestamp, at most the time of the flush (P9).
    time_at_watermark timestamptz,
    PRIMARY KEY (subscription_id, partition_id),
    CHECK (watermark >= first_watermark)
);

-- One row per message and subscription, in one of three states: 0 open, 1 dead, 2 done.
-- A receipt is a row that is done; it uses only the columns before `attempts`, and the others cost
-- it one null bitmap. No foreign keys here: a check per row would cost more than it protects, since
-- these rows are only written by the functions and statements of the inbox.
-- Columns are ordered by alignment, widest first.
CREATE TABLE inbox.messages (
    -- 128 bits: UUIDs as they are, other ids hashed.
    message_id      uuid NOT NULL,
    record_offset   bigint NOT NULL,
    -- When the row came to its state.
    recorded_at     timestamptz NOT NULL DEFAULT now(),
    subscription_id integer NOT NULL,
    partition_id    integer NOT NULL,
    -- 32 bits of the payload's hash: an id that comes again with another payload is noticed.
    fingerprint     integer NOT NULL,
    state           smallint NOT NULL CHECK (state BETWEEN 0 AND 2),
    -- 0 processed, 1 stale, 2 discarded; set exactly when the row is done.
    outcome         smallint,
    -- Of open and dead rows only. Bytes from outside are bytea: no content of theirs can fail the
    -- statement, neither NUL nor broken UTF-8.
    attempts        integer,
    -- The partition's, when the row was written: offsets of one log say nothing about those of the next.
    incarnation     integer,
    -- The last failure: none of an open row that has only waited.
    class           text,
    reason          text,
    raw_id          bytea,
    business_key    bytea,
    headers         bytea,
    record_key      bytea,
    payload         bytea,
    -- Milliseconds since 1970 as Kafka has it: any 64-bit number, which a timestamptz would refuse.
    record_time     bigint,
    -- What tells business keys apart: 128 bits, as an index holds no key of any length.
    key_id          uuid,
    -- An open row waits until then; null: it is due when it is the head of its key.
    due_at          timestamptz,
    first_attempt_at timestamptz,
    last_attempt_at timestamptz,
    -- Of an open row that runs, or ran when its process ended: who has the token ends it.
    start_token     uuid,
    started_at      timestamptz,
    -- True of a dead letter that holds its key until a person acts; else null.
    blocks_key      boolean,
    -- Dedup (P1): this constraint decides, never a look-up before. The id comes first, since it tells
    -- two rows apart in one comparison.
    PRIMARY KEY (message_id, subscription_id),
    CHECK ((state = 2) = (outcome IS NOT NULL)),
    CHECK (state = 2 OR (raw_id IS NOT NULL AND attempts IS NOT NULL AND key_id IS NOT NULL)),
    CHECK ((state = 2) = (incarnation IS NULL)),
    CHECK (state <> 1 OR class IS NOT NULL),
    CHECK (state = 0 OR (start_token IS NULL AND due_at IS NULL)),
    CHECK ((start_token IS NULL) = (started_at IS NULL)),
    CHECK (blocks_key IS NULL OR (blocks_key AND state = 1))
);

-- What a person looks for: the few rows that are not receipts.
CREATE INDEX messages_not_done ON inbox.messages (subscription_id, partition_id, record_offset)
    WHERE state <> 2;

-- The head of a key is its first row here. Dead letters that release their key are left out: there may be
-- many, and each start would pass them all. What is left of an earlier log comes before what the next one
-- has, whose offsets begin at 0 again (P3). The id comes last: the order is whole, and nothing is sorted.
CREATE INDEX messages_of_key
    ON inbox.messages (subscription_id, partition_id, key_id, incarnation, record_offset, message_id)
    WHERE state = 0 OR blocks_key;

-- One row that a probe rewrites: "the database is up" means that a row of ours can be written.
CREATE TABLE inbox.probe (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    probed_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO inbox.probe DEFAULT VALUES;

-- And that a table can grow. On a full disk rows are rewritten in place for a long time, while every insert
-- fails, and would look like the fault of its message. The table has 128 KiB and is gone with its transaction;
-- where the role may not make one, nothing is learnt about the disk.
CREATE FUNCTION inbox.probe_now() RETURNS void
LANGUAGE plpgsql VOLATILE SET temp_tablespaces = '' AS $$
BEGIN
    UPDATE inbox.probe SET probed_at = now();
    BEGIN
        CREATE TEMPORARY TABLE inbox_probe_room ON COMMIT DROP AS
            SELECT repeat('x', 1900) AS filler FROM generate_series(1, 64);
    EXCEPTION WHEN insufficient_privilege THEN
        NULL;
    END;
END
$$;

-- What holds in every transaction of the inbox, local to it, whatever the server's settings are and
-- whoever gets the connection from a pooler afterwards. Limits are in milliseconds. Waits for locks
-- and for the client are limited from this statement on, the time of a statement from the next.
CREATE FUNCTION inbox.limit_transaction(statement_limit text, lock_limit text, idle_limit text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true),
        set_config('client_connection_check_interval', '500', true),
        set_config('statement_timeout', statement_limit, true),
        set_config('lock_timeout', lock_limit, true),
        set_config('idle_in_transaction_session_timeout', idle_limit, true);
END
$$;

-- Which server this is: its system identifier and its timeline, which a promotion raises. The functions
-- that pg_control_checkpoint() reads show the old timeline for minutes after a promotion; the name of
-- the present WAL file has the right one. Empty where the server does not tell.
CREATE FUNCTION inbox.server() RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_control_system()) || ' '
        || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
EXCEPTION WHEN OTHERS THEN
    RETURN '';
END
$$;

-- Whether an ownership was taken on this server, as far as the timeline tells, which is cheap enough for
-- each transaction: behind a promotion the messages that are gone must not be overtaken (P3).
CREATE FUNCTION inbox.is_here(owned_on text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN owned_on = '' THEN true
        ELSE right(owned_on, 8) = left(pg_walfile_name(pg_current_wal_lsn()), 8) END
$$;

-- The fence (P4). Locks every partition of the batch in shared mode, then reads their epochs, and
-- answers with the partitions whose epoch or server is another. The order matters: READ COMMITTED gives each
-- statement of a volatile function a fresh snapshot, so an epoch raised before the lock was granted
-- is seen. Locks are advisory: row locks by many lanes would write multixacts.
-- 1768841832 is the lock class of the inbox. Partitions come sorted, so that two batches cannot
-- wait for each other.
-- `mark` is set locally by the BEGIN of the same transaction. Without this check a BEGIN that failed
-- alone would let admission commit a receipt without its effect.
CREATE FUNCTION inbox.fence(mark text, partitions integer[], epochs uuid[]) RETURNS integer[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    each_partition integer;
BEGIN
    IF current_setting('inbox.mark', true) IS DISTINCT FROM mark THEN
        RAISE EXCEPTION 'inbox: this statement is not in the transaction it was sent for'
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    FOREACH each_partition IN ARRAY partitions LOOP
        PERFORM pg_advisory_xact_lock_shared(1768841832, each_partition);
    END LOOP;
    RETURN ARRAY(
        SELECT owned.id
        FROM unnest(partitions, epochs) AS owned (id, epoch)
        WHERE NOT EXISTS (
            SELECT FROM inbox.partitions p
            WHERE p.id = owned.id AND p.epoch = owned.epoch AND inbox.is_here(p.server)
        )
    );
END
$$;

-- Locks partitions exclusively for a person's call: whatever passed the check of their present epochs has
-- ended then. Answers with the first one that is not to be had, or null.
-- Admissions queue up behind these locks, and a message whose admission fails three times is buried: so
-- each lock is waited for no longer than a take-over does, and all together for a few seconds.
CREATE FUNCTION inbox.lock_partitions(partitions integer[]) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    each_partition integer;
    began timestamptz := clock_timestamp();
BEGIN
    PERFORM set_config('lock_timeout', '1000', true);
    FOREACH each_partition IN ARRAY partitions LOOP
        BEGIN
            PERFORM pg_advisory_xact_lock(1768841832, each_partition);
        EXCEPTION WHEN lock_not_available THEN
            RETURN each_partition;
        END;
        IF clock_timestamp() - began > interval '3 seconds' THEN
            RETURN each_partition;
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;

-- Admission of many messages of one subscription. Answers only with what is not fresh:
--   (partition, -1)   another epoch, or server, has this partition: nothing was written
--   (ordinality, n)   a row was there: n is its state, plus 16 if the payload's fingerprint differs
-- The look-up finds what is there and decides nothing: where another transaction writes an id after
-- it, the insert waits for that one and then fails on the primary key, and the batch is admitted by
-- `admit_raced`. A plain insert costs a fifth less than ON CONFLICT, which writes and confirms each
-- row in two steps.
-- Plans are kept from when the table was small. The OFFSET keeps the planner from joining the whole
-- table, and `enable_seqscan = off` from reading all of it for each id, until it is analyzed again.
-- `ids` come sorted, or batches would deadlock.
CREATE FUNCTION inbox.admit_many(
    mark text, statement_limit text, lock_limit text, idle_limit text, partitions integer[], epochs uuid[], subscription integer,
    ids uuid[], id_partitions integer[], offsets bigint[], fingerprints integer[]
) RETURNS TABLE (ordinal integer, answer integer)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
    lost integer[];
    there integer[];
    answers integer[];
BEGIN
    PERFORM inbox.limit_transaction(statement_limit, lock_limit, idle_limit);
    lost := inbox.fence(mark, partitions, epochs);
    IF cardinality(lost) > 0 THEN
        RETURN QUERY SELECT unnest(lost), -1;
        RETURN;
    END IF;
    SELECT coalesce(array_agg(u.n::integer), '{}'),
        array_agg(found.state + CASE WHEN found.fingerprint = u.fingerprint THEN 0 ELSE 16 END)
    INTO there, answers
    FROM unnest(ids, fingerprints) WITH ORDINALITY AS u (id, fingerprint, n),
        LATERAL (
            SELECT m.state, m.fingerprint FROM inbox.messages m
            WHERE m.message_id = u.id AND m.subscription_id = subscription OFFSET 0
        ) AS found;
    INSERT INTO inbox.messages
        (message_id, record_offset, subscription_id, partition_id, fingerprint, state, outcome)
    SELECT u.id, u.record_offset, subscription, u.partition_id, u.fingerprint, 2, 0
    FROM unnest(ids, id_partitions, offsets, fingerprints) WITH ORDINALITY
        AS u (id, partition_id, record_offset, fingerprint, n)
    WHERE u.n::integer <> ALL (there);
    RETURN QUERY SELECT * FROM unnest(there, answers);
END
$$;

-- The same after another transaction wrote one of the ids between look-up and insert, and where ids
-- may be equal. One more answer:
--   (ordinality, -2)  neither inserted nor there, since its row went away meanwhile: run again
-- What was inserted is collected, and the rest looked up in a later statement: a redelivery of the
-- very same offset is a conflict like any other.
CREATE FUNCTION inbox.admit_raced(
    mark text, statement_limit text, lock_limit text, idle_limit text, partitions integer[], epochs uuid[], subscription integer,
    ids uuid[], id_partitions integer[], offsets bigint[], fingerprints integer[]
) RETURNS TABLE (ordinal integer, answer integer)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
    lost integer[];
    inserted uuid[];
BEGIN
    PERFORM inbox.limit_transaction(statement_limit, lock_limit, idle_limit);
    lost := inbox.fence(mark, partitions, epochs);
    IF cardinality(lost) > 0 THEN
        RETURN QUERY SELECT unnest(lost), -1;
        RETURN;
    END IF;
    WITH fresh AS (
        INSERT INTO inbox.messages AS m
            (message_id, record_offset, subscription_id, partition_id, fingerprint, state, outcome)
        SELECT u.id, u.record_offset, subscription, u.partition_id, u.fingerprint, 2, 0
        FROM unnest(ids, id_partitions, offsets, fingerprints)
            AS u (id, partition_id, record_offset, fingerprint)
        ON CONFLICT (subscription_id, message_id) DO NOTHING
        RETURNING m.message_id
    )
    SELECT coalesce(array_agg(fresh.message_id), '{}') INTO inserted FROM fresh;
    IF cardinality(inserted) < cardinality(ids) THEN
        RETURN QUERY
        SELECT u.n::integer,
            coalesce(m.state + CASE WHEN m.fingerprint = u.fingerprint THEN 0 ELSE 16 END, -2)
        FROM unnest(ids, fingerprints) WITH ORDINALITY AS u (id, fingerprint, n)
        LEFT JOIN inbox.messages m ON m.subscription_id = subscription AND m.message_id = u.id
        WHERE NOT EXISTS (SELECT FROM unnest(inserted) AS i (id) WHERE i.id = u.id);
    END IF;
END
$$;

-- The same for one message, without arrays: they cost a third of a small transaction.
-- Answers -3 when the message is fresh.
CREATE FUNCTION inbox.admit_one(
    mark text, statement_limit text, lock_limit text, idle_limit text, id_partition integer, partition_epoch uuid, subscription integer,
    id uuid, id_offset bigint, id_fingerprint integer
) RETURNS integer
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
    answer integer;
BEGIN
    IF current_setting('inbox.mark', true) IS DISTINCT FROM mark THEN
        RAISE EXCEPTION 'inbox: this statement is not in the transaction it was sent for'
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    PERFORM inbox.limit_transaction(statement_limit, lock_limit, idle_limit);
    PERFORM pg_advisory_xact_lock_shared(1768841832, id_partition);
    PERFORM FROM inbox.partitions p
    WHERE p.id = id_partition AND p.epoch = partition_epoch AND inbox.is_here(p.server);
    IF NOT FOUND THEN
        RETURN -1;
    END IF;
    INSERT INTO inbox.messages
        (message_id, record_offset, subscription_id, partition_id, fingerprint, state, outcome)
    VALUES (id, id_offset, subscription, id_partition, id_fingerprint, 2, 0)
    ON CONFLICT (subscription_id, message_id) DO NOTHING;
    IF FOUND THEN
        RETURN -3;
    END IF;
    SELECT m.state + CASE WHEN m.fingerprint = id_fingerprint THEN 0 ELSE 16 END INTO answer
    FROM inbox.messages m WHERE m.subscription_id = subscription AND m.message_id = id;
    RETURN coalesce(answer, -2);
END
$$;

-- Admission of one message that has already failed alone: tells "another transaction holds this id
-- longer than the lock time-out" (-4) from every other error. The exception block costs a
-- subtransaction, so the good path does without it.
CREATE FUNCTION inbox.admit_patiently(
    mark text, statement_limit text, lock_limit text, idle_limit text, id_partition integer, partition_epoch uuid, subscription integer,
    id uuid, id_offset bigint, id_fingerprint integer
) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN inbox.admit_one(mark, statement_limit, lock_limit, idle_limit, id_partition, partition_epoch, subscription, id, id_offset, id_fingerprint);
EXCEPTION WHEN lock_not_available THEN
    RETURN -4;
END
$$;

-- Directly before COMMIT: fails unless this very transaction is still open and not aborted. COMMIT
-- of an aborted transaction reports success to the client, and so would that of another one.
CREATE FUNCTION inbox.prove(mark text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('inbox.mark', true) IS DISTINCT FROM mark THEN
        RAISE EXCEPTION 'inbox: the transaction of this batch has ended before its COMMIT'
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
END
$$;

-- Start: gives the head of a key a token, if it is due, and answers with the row as it is then. Answers:
--   -1 another epoch, or server, has the partition    0 the key has no head
--    1 started    2 due in `micros`    3 its head is a dead letter that blocks the key
-- Whoever started a row before did it under this epoch too (a take-over clears the tokens of others), and
-- lost the answer or its end: the row is started again, with the new token.
-- Another transaction may finish the head while this one waits for the row: then the next one is the head, and
-- is only seen by a later statement.
-- `state + 0`, because a plan from when the table was empty would look for a row by its id among all open rows
-- of the subscription, in the index of heads.
CREATE FUNCTION inbox.start(
    mark text, statement_limit text, lock_limit text, idle_limit text, of_partition integer, partition_epoch uuid, subscription integer,
    of_key uuid, token uuid,
    OUT answer integer, OUT micros bigint, OUT micros_since_first bigint, OUT head inbox.messages
)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
DECLARE
    found_id uuid;
    found_state smallint;
    found_token uuid;
    found_due timestamptz;
    moment timestamptz;
BEGIN
    PERFORM inbox.limit_transaction(statement_limit, lock_limit, idle_limit);
    IF cardinality(inbox.fence(mark, ARRAY[of_partition], ARRAY[partition_epoch])) > 0 THEN
        answer := -1;
        RETURN;
    END IF;
    LOOP
        SELECT m.message_id, m.state, m.start_token, m.due_at
        INTO found_id, found_state, found_token, found_due
        FROM inbox.messages m
        WHERE m.subscription_id = subscription AND m.partition_id = of_partition AND m.key_id = of_key
            AND (m.state = 0 OR m.blocks_key)
        ORDER BY m.incarnation, m.record_offset, m.message_id LIMIT 1;
        IF NOT FOUND THEN
            answer := 0;
            RETURN;
        END IF;
        IF found_state = 1 THEN
            answer := 3;
            RETURN;
        END IF;
        -- now() is from before the wait for the lock.
        moment := clock_timestamp();
        IF found_token IS NULL AND found_due > moment THEN
            answer := 2;
            micros := extract(epoch FROM found_due - moment) * 1000000;
            RETURN;
        END IF;
        UPDATE inbox.messages m SET start_token = token, started_at = moment
        WHERE m.message_id = found_id AND m.subscription_id = subscription AND m.state + 0 = 0
        RETURNING m.* INTO head;
        IF FOUND THEN
            answer := 1;
            micros_since_first := extract(epoch FROM moment - head.first_attempt_at) * 1000000;
            RETURN;
        END IF;
    END LOOP;
END
$$;

-- Finish: the started row becomes a receipt, as narrow as any. Answers:
--   -1 another epoch, or server, has the partition    0 the row is not open with this token    1 done
-- The transaction stays open for the effect. `state + 0`: as in `start`.
CREATE FUNCTION inbox.finish(
    mark text, statement_limit text, lock_limit text, idle_limit text, of_partition integer, partition_epoch uuid, subscription integer,
    id uuid, token uuid
) RETURNS integer
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
BEGIN
    PERFORM inbox.limit_transaction(statement_limit, lock_limit, idle_limit);
    IF cardinality(inbox.fence(mark, ARRAY[of_partition], ARRAY[partition_epoch])) > 0 THEN
        RETURN -1;
    END IF;
    UPDATE inbox.messages m SET state = 2, outcome = 0, recorded_at = now(),
        attempts = NULL, incarnation = NULL, class = NULL, reason = NULL, raw_id = NULL, business_key = NULL,
        headers = NULL, record_key = NULL, payload = NULL, record_time = NULL, key_id = NULL, due_at = NULL,
        first_attempt_at = NULL, last_attempt_at = NULL, start_token = NULL, started_at = NULL
    WHERE m.message_id = id AND m.subscription_id = subscription AND m.state + 0 = 0 AND m.start_token = token;
    RETURN CASE WHEN FOUND THEN 1 ELSE 0 END;
END
$$;
