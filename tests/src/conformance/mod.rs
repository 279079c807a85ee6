//! The suite that every database passes: one file per transition, and `tx` for what handlers work
//! through. What a database cannot do is declared in its [`Dialect`](crate::dialect::Dialect).

pub mod accept_log;
pub mod admit;
pub mod bury;
pub mod bury_open;
pub mod commit;
pub mod finish;
pub mod flush;
pub mod migrate;
pub mod move_subscription;
pub mod park;
pub mod postpone;
pub mod probe;
pub mod register;
pub mod remove;
pub mod start;
pub mod take_over;
pub mod tx;

/// Makes a test of each function of the suite that is named, for one database.
#[macro_export]
macro_rules! conformance {
    ($dialect:ty: $($file:ident { $($test:ident)* })*) => {
        $(
            mod $file {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $test() {
                        $crate::conformance::$file::$test::<$dialect>().await;
                    }
                )*
            }
        )*
    };
}

/// Every transition of the store.
#[macro_export]
macro_rules! store_conformance {
    ($dialect:ty) => {
        $crate::conformance! {
            $dialect:
            register {
                a_subscription_keeps_its_number
                another_group_is_refused
                another_rule_is_refused
                one_that_is_refused_leaves_nothing_of_the_others
                a_new_one_begins_where_it_is_told
                an_unknown_group_that_was_somewhere_is_refused
                twice_at_once_is_once
            }
            take_over {
                a_new_partition_begins_at_the_first_watermark
                a_later_owner_finds_the_watermarks
                a_later_subscription_begins_where_it_is_told
                a_higher_number_is_taken_over
                the_old_epoch_can_write_nothing
                what_was_started_is_open_again
                keys_with_open_rows_are_told
                heads_are_of_the_earliest_log
                it_waits_for_an_open_transaction_of_the_old_owner
                it_gives_up_after_the_lock_limit_and_can_be_tried_again
                of_two_at_once_one_epoch_wins
            }
            admit {
                a_fresh_message_gets_a_receipt
                an_id_that_is_done_is_a_duplicate
                a_redelivery_of_the_same_offset_is_a_duplicate
                a_dead_or_open_row_answers_with_its_state
                another_subscription_has_messages_of_its_own
                another_payload_under_the_same_id_is_told
                of_many_only_those_in_conflict_are_named
                a_batch_over_two_partitions_needs_both
                of_two_at_once_the_second_waits_and_is_a_duplicate
                after_a_rollback_of_the_first_the_second_is_fresh
                a_patient_one_is_told_that_it_waits
                overlapping_batches_do_not_deadlock
                a_receipt_uses_no_column_of_a_letter
                a_batch_of_nothing_fresh_still_checks_the_epoch
            }
            commit {
                effect_and_receipt_come_together
                a_rollback_leaves_neither
                a_transaction_ended_by_an_error_cannot_be_committed
                a_transaction_rolled_back_cannot_be_committed
                a_handler_past_its_time_limit_leaves_nothing
                a_handler_that_panics_leaves_nothing
                a_dropped_admission_leaves_nothing_open
                a_dropped_transaction_leaves_nothing_open
            }
            bury {
                a_letter_keeps_every_byte
                a_letter_without_bytes_names_its_place
                texts_of_any_content_are_stored
                a_letter_names_its_key_and_its_attempts
                an_id_that_is_there_is_counted
                a_letter_is_a_conflict_for_admission
                another_epoch_buries_nothing
            }
            park {
                an_open_row_keeps_every_byte
                a_failure_of_any_content_is_stored
                an_id_that_is_there_is_counted
                twice_at_once_is_once
                an_open_row_is_a_conflict_for_admission
                another_epoch_parks_nothing
            }
            start {
                the_lowest_offset_is_the_head
                what_an_earlier_log_left_comes_first
                a_message_without_a_key_is_its_own
                the_keys_of_others_are_apart
                one_that_is_parked_is_not_due
                a_letter_that_blocks_its_key_is_its_head
                one_whose_answer_was_lost_is_repeated
                a_later_token_takes_it_over
                of_two_at_once_one_can_finish
                it_waits_for_a_finish_that_is_open
                another_epoch_starts_nothing
            }
            finish {
                effect_and_receipt_come_together
                a_rollback_leaves_it_open_and_started
                a_transaction_ended_by_an_error_cannot_be_committed
                a_stale_token_is_gone
                of_two_at_once_one_finishes
                it_gives_up_after_the_lock_limit
                its_id_is_a_duplicate_from_then_on
                another_epoch_finishes_nothing
                a_take_over_waits_for_it
                a_take_over_for_others_waits_for_it
                a_dropped_one_leaves_nothing_open
            }
            postpone {
                the_next_attempt_knows_of_the_last
                it_is_not_due_before_its_time
                a_failure_of_any_content_is_stored
                twice_is_once
                what_is_finished_stays_so
                another_epoch_postpones_nothing
            }
            bury_open {
                a_letter_keeps_every_byte
                a_letter_says_why
                it_releases_or_holds_its_key
                twice_is_once
                its_id_is_a_conflict_for_admission
                another_epoch_buries_nothing
            }
            flush {
                the_number_is_compared_and_raised
                a_watermark_never_goes_down
                another_epoch_writes_nothing
                one_lost_partition_does_not_hold_up_the_others
                a_time_without_sense_is_kept_within_sense
                no_time_keeps_the_old_one
                a_subscription_that_is_not_named_stays
            }
            accept_log {
                the_first_log_is_recorded
                the_last_record_is_kept
                another_log_begins_at_its_first_record
                another_log_begins_where_it_is_told
                an_incarnation_is_accepted_once
                it_ends_the_ownership
            }
            probe {
                a_healthy_database_answers
                a_database_without_the_schema_is_not_healthy
                a_transaction_that_is_open_is_no_outage
            }
            move_subscription {
                it_goes_on_exactly_where_it_was
                open_rows_go_with_it
                what_an_earlier_log_left_still_comes_first
                open_rows_of_an_accepted_log_go_with_it
                the_old_group_is_shut_out
                it_gives_up_on_a_transaction_in_the_way
                a_repeated_one_changes_nothing
                one_that_was_interrupted_is_finished_by_the_next
                the_others_of_the_groups_stay
                the_log_goes_with_it
                what_cannot_be_moved_is_refused
            }
            remove {
                one_of_the_same_name_begins_anew
                one_of_the_same_name_has_to_say_where_it_begins
                who_still_runs_it_is_shut_out
                what_is_not_finished_is_kept_or_discarded
                a_repeated_one_finishes_it
                only_its_own_rows_go
                what_cannot_be_removed_is_refused
            }
            migrate {
                up_down_up
                several_at_once
                a_missing_schema_names_the_call
                a_newer_schema_is_refused
                going_down_leaves_only_the_version_table
            }
        }
    };
}

/// What handlers work through.
#[macro_export]
macro_rules! tx_conformance {
    ($dialect:ty) => {
        $crate::conformance! {
            $dialect:
            tx {
                statements_that_end_a_transaction_are_refused
                batch_execute_is_refused
                what_follows_in_the_same_text_does_not_run
                a_swallowed_error_fails_the_attempt
                after_an_error_nothing_more_is_sent
                a_savepoint_survives_an_error
                a_savepoint_that_is_released_keeps_its_work
                savepoints_nest
                a_savepoint_after_an_error_is_refused
                a_release_after_an_error_is_refused
                a_permanent_failure_is_the_handlers_word
                messages_run_in_sequence_and_the_failing_one_is_named
            }
        }
    };
}
