-- The service's tables in Postgres, made anew.
DROP TABLE IF EXISTS quickstart_accounts, quickstart_ledger;

CREATE TABLE quickstart_accounts (
    id    bigint PRIMARY KEY,
    cents bigint NOT NULL,
    open  boolean NOT NULL
);

CREATE TABLE quickstart_ledger (
    number          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Not unique: what the inbox promises must not be kept by another constraint.
    message_id      text NOT NULL,
    account         bigint NOT NULL,
    sequence        bigint NOT NULL,
    kafka_partition integer NOT NULL,
    kafka_offset    bigint NOT NULL,
    worker          integer NOT NULL
);

-- What the inbox remembers of earlier runs: with their effects their receipts go too, or this run
-- would be taken for a repetition. A service never does this.
DO $$
BEGIN
    IF to_regclass('inbox.subscriptions') IS NOT NULL THEN
        DELETE FROM inbox.messages WHERE subscription_id IN (
            SELECT id FROM inbox.subscriptions WHERE consumer_group LIKE 'quickstart-%'
        );
        DELETE FROM inbox.watermarks WHERE subscription_id IN (
            SELECT id FROM inbox.subscriptions WHERE consumer_group LIKE 'quickstart-%'
        );
        DELETE FROM inbox.partitions WHERE consumer_group LIKE 'quickstart-%';
        DELETE FROM inbox.subscriptions WHERE consumer_group LIKE 'quickstart-%';
    END IF;
END
$$;
