-- Removes every receipt: after this, each message Kafka still has takes effect again.
DROP TABLE inbox_probe;
DROP TABLE inbox_messages;
DROP TABLE inbox_watermarks;
DROP TABLE inbox_partitions;
DROP TABLE inbox_subscriptions;
