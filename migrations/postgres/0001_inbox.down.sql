-- Removes every receipt: after this, each message Kafka still has takes effect again.
DROP FUNCTION inbox.prove(text);
DROP FUNCTION inbox.admit_patiently(text, integer, uuid, integer, uuid, bigint, integer);
DROP FUNCTION inbox.admit_one(text, integer, uuid, integer, uuid, bigint, integer);
DROP FUNCTION inbox.admit_many(text, integer[], uuid[], integer, uuid[], integer[], bigint[], integer[]);
DROP FUNCTION inbox.fence(text, integer[], uuid[]);
DROP TABLE inbox.probe;
DROP TABLE inbox.messages;
DROP TABLE inbox.watermarks;
DROP TABLE inbox.partitions;
DROP TABLE inbox.subscriptions;
