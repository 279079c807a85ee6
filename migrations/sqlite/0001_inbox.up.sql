-- Everything of the inbox has the prefix `inbox_`, inside the database of the service's own tables,
-- because a message's receipt and its effect must commit together.
-- Tables are STRICT: a value of another type is refused, as other databases do it. Times are
-- milliseconds since 1970, UUIDs are blobs of 16 bytes.

-- A subscription is a durable name. Its number is what rows carry instead of a text.
CREATE TABLE inbox_subscriptions (
    id             INTEGER PRIMARY KEY,
    name           TEXT NOT NULL,
    -- Bound to one consumer group: two groups would each deliver everything.
    consumer_group TEXT NOT NULL,
    -- Another rule would give old messages new ids or another order: it is refused.
    id_rule        TEXT NOT NULL,
    key_rule       TEXT NOT NULL,
    registered_at  INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    -- Set when a person removes it. The row stays: its number is never given again, and whoever still
    -- runs its handler is told.
    removed_at     INTEGER
) STRICT;
CREATE UNIQUE INDEX inbox_subscriptions_name ON inbox_subscriptions (name) WHERE removed_at IS NULL;

-- One row per topic partition of a group: who owns it, and how often its watermark was flushed.
CREATE TABLE inbox_partitions (
    id             INTEGER PRIMARY KEY,
    consumer_group TEXT NOT NULL,
    topic          TEXT NOT NULL,
    partition      INTEGER NOT NULL,
    -- The random token of the present ownership. Every transaction checks it (P4).
    epoch          BLOB CHECK (length(epoch) = 16),
    -- Raised with each flush, and given to Kafka as commit metadata: a number in Kafka above this
    -- one shows that this database went back (P10).
    flush_number   INTEGER NOT NULL DEFAULT 0 CHECK (flush_number >= 0),
    -- Raised when a person accepts that the partition's log is not the old one.
    incarnation    INTEGER NOT NULL DEFAULT 1 CHECK (incarnation >= 1),
    owned_since    INTEGER,
    -- Which log this is: what the broker said first. Ids made of offsets carry this cluster id, and
    -- a log with another cluster or topic id is not consumed until a person accepts it (P10). The
    -- topic id is null where no broker told one.
    cluster        TEXT,
    topic_id       TEXT,
    -- The last finished record, with its timestamp in milliseconds since 1970: in a log that was cut
    -- or made anew there is another one at its offset, if any.
    last_offset    INTEGER,
    last_time      INTEGER,
    UNIQUE (consumer_group, topic, partition)
) STRICT;

-- Per subscription and partition: every record below the watermark is finished (P2).
CREATE TABLE inbox_watermarks (
    subscription_id   INTEGER NOT NULL REFERENCES inbox_subscriptions (id),
    partition_id      INTEGER NOT NULL REFERENCES inbox_partitions (id),
    -- Where the subscription began here. It never moves.
    first_watermark   INTEGER NOT NULL CHECK (first_watermark >= 0),
    watermark         INTEGER NOT NULL,
    -- The last finished record's timestamp, at most the time of the flush (P9).
    time_at_watermark INTEGER,
    PRIMARY KEY (subscription_id, partition_id),
    CHECK (watermark >= first_watermark)
) STRICT, WITHOUT ROWID;

-- One row per message and subscription, in one of three states: 0 open, 1 dead, 2 done.
-- A receipt is a row that is done; it uses only the columns before `attempts`. No foreign keys
-- here: a check per row would cost more than it protects, since these rows are only written by the
-- statements of the inbox.
-- WITHOUT ROWID: the primary key is the table, so that a receipt is written once and not twice.
CREATE TABLE inbox_messages (
    -- 128 bits: UUIDs as they are, other ids hashed.
    message_id      BLOB NOT NULL CHECK (length(message_id) = 16),
    record_offset   INTEGER NOT NULL,
    -- When the row came to its state.
    recorded_at     INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    subscription_id INTEGER NOT NULL,
    partition_id    INTEGER NOT NULL,
    -- 32 bits of the payload's hash: an id that comes again with another payload is noticed.
    fingerprint     INTEGER NOT NULL,
    state           INTEGER NOT NULL CHECK (state BETWEEN 0 AND 2),
    -- 0 processed, 1 stale, 2 discarded; set exactly when the row is done.
    outcome         INTEGER,
    -- Of open and dead rows only. Bytes from outside are blobs: no content of theirs can fail the
    -- statement, neither NUL nor broken UTF-8.
    attempts        INTEGER,
    -- The partition's, when the row was written: offsets of one log say nothing about those of the next.
    incarnation     INTEGER,
    -- The last failure: none of an open row that has only waited.
    class           TEXT,
    reason          TEXT,
    raw_id          BLOB,
    business_key    BLOB,
    headers         BLOB,
    record_key      BLOB,
    payload         BLOB,
    -- Milliseconds since 1970 as Kafka has it: any 64-bit number.
    record_time     INTEGER,
    -- What tells business keys apart: 128 bits, since a key has any length.
    key_id          BLOB CHECK (length(key_id) = 16),
    -- An open row waits until then; null: it is due when it is the head of its key.
    due_at          INTEGER,
    first_attempt_at INTEGER,
    last_attempt_at INTEGER,
    -- Of an open row that runs, or ran when its process ended: who has the token ends it.
    start_token     BLOB CHECK (length(start_token) = 16),
    started_at      INTEGER,
    -- 1 of a dead letter that holds its key until a person acts; else null.
    blocks_key      INTEGER CHECK (blocks_key = 1),
    -- Dedup (P1): this constraint decides, never a look-up before.
    PRIMARY KEY (subscription_id, message_id),
    CHECK ((state = 2) = (outcome IS NOT NULL)),
    CHECK (state = 2 OR (raw_id IS NOT NULL AND attempts IS NOT NULL AND key_id IS NOT NULL)),
    CHECK ((state = 2) = (incarnation IS NULL)),
    CHECK (state <> 1 OR class IS NOT NULL),
    CHECK (state = 0 OR (start_token IS NULL AND due_at IS NULL)),
    CHECK ((start_token IS NULL) = (started_at IS NULL)),
    CHECK (blocks_key IS NULL OR state = 1)
) STRICT, WITHOUT ROWID;

-- What a person looks for: the few rows that are not receipts.
CREATE INDEX inbox_messages_not_done ON inbox_messages (subscription_id, partition_id, record_offset)
    WHERE state <> 2;

-- The head of a key is its first row here. Dead letters that release their key are left out: there may be
-- many, and each start would pass them all. What is left of an earlier log comes before what the next one
-- has, whose offsets begin at 0 again (P3).
CREATE INDEX inbox_messages_of_key
    ON inbox_messages (subscription_id, partition_id, key_id, incarnation, record_offset)
    WHERE state = 0 OR blocks_key;

-- One row that a probe rewrites: "the database is up" means that a row of ours can be written.
CREATE TABLE inbox_probe (
    only_row  INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    probed_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER))
) STRICT;
INSERT INTO inbox_probe DEFAULT VALUES;
