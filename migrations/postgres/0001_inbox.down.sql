-- Removes every receipt: after this, each message Kafka still has takes effect again.
DROP FUNCTION inbox.finish(text, text, text, text, integer, uuid, integer, uuid, uuid);
DROP FUNCTION inbox.start(text, text, text, text, integer, uuid, integer, uuid, uuid);
DROP FUNCTION inbox.prove(text);
DROP FUNCTION inbox.admit_patiently(text, text, text, text, integer, uuid, integer, uuid, bigint, integer);
DROP FUNCTION inbox.admit_one(text, text, text, text, integer, uuid, integer, uuid, bigint, integer);
DROP FUNCTION inbox.admit_raced(text, text, text, text, integer[], uuid[], integer, uuid[], integer[], bigint[], integer[]);
DROP FUNCTION inbox.admit_many(text, text, text, text, integer[], uuid[], integer, uuid[], integer[], bigint[], integer[]);
DROP FUNCTION inbox.lock_partitions(integer[]);
DROP FUNCTION inbox.is_here(text);
DROP FUNCTION inbox.server();
DROP FUNCTION inbox.fence(text, integer[], uuid[]);
DROP FUNCTION inbox.limit_transaction(text, text, text);
DROP FUNCTION inbox.probe_now();
DROP TABLE inbox.probe;
DROP TABLE inbox.messages;
DROP TABLE inbox.watermarks;
DROP TABLE inbox.partitions;
DROP TABLE inbox.subscriptions;
