//! The service's tables, as diesel knows them.

diesel::table! {
    /// What every account holds.
    #[sql_name = "quickstart_accounts"]
    accounts (id) {
        id -> BigInt,
        cents -> BigInt,
        /// Payments to a closed account fail for now.
        open -> Bool,
    }
}

diesel::table! {
    /// One row per effect. Nothing here refuses a second row for a message: if the inbox let one
    /// through, it must show.
    #[sql_name = "quickstart_ledger"]
    ledger (number) {
        /// Rising in the order in which effects happened to an account.
        number -> BigInt,
        message_id -> Text,
        account -> BigInt,
        /// The payment's number within its account, as its sender counted.
        sequence -> BigInt,
        kafka_partition -> Integer,
        kafka_offset -> BigInt,
        /// Which process it was: 1 before the kill, 2 after it.
        worker -> Integer,
    }
}
