-- The service's tables in the SQLite file. WAL, so that the run can count while the worker writes.
PRAGMA journal_mode = WAL;
PRAGMA busy_timeout = 5000;

CREATE TABLE quickstart_accounts (
    id    INTEGER PRIMARY KEY,
    cents INTEGER NOT NULL,
    open  INTEGER NOT NULL
) STRICT;

CREATE TABLE quickstart_ledger (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Not unique: what the inbox promises must not be kept by another constraint.
    message_id      TEXT NOT NULL,
    account         INTEGER NOT NULL,
    sequence        INTEGER NOT NULL,
    kafka_partition INTEGER NOT NULL,
    kafka_offset    INTEGER NOT NULL,
    worker          INTEGER NOT NULL
) STRICT;
