//! The suite that every engine must pass: the same promises, the same tests.
//!
//! Each case is an async function that is handed a [`Factory`] on an empty database. An engine's test file writes one
//! `#[test]` for each case with [`conformance_tests!`](crate::conformance_tests) and a function that makes the
//! database, starts a runtime, runs the case and removes the database. Ids are small numbers, times are fixed, and
//! nothing sleeps.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a case fails by panicking, like any test"
)]

mod books;
mod samples;

pub mod account;
pub mod admin;
pub mod audit;
pub mod audit_log;
pub mod batch;
pub mod blob;
pub mod calibration;
pub mod concurrency;
pub mod counter;
pub mod engine;
pub mod file;
pub mod grant;
pub mod hold;
pub mod idempotency;
pub mod job;
pub mod key;
pub mod label_prior;
pub mod lot;
pub mod media;
pub mod member;
pub mod notice;
pub mod open_hold;
pub mod part;
pub mod plan;
pub mod price;
pub mod provider_subscription;
pub mod refund;
pub mod report;
pub mod response;
pub mod settle;
pub mod subscription;
pub mod sweep;
pub mod top_up;
pub mod total;
pub mod usage;
pub mod webhook;

use std::pin::Pin;
use std::sync::Arc;

use crate::Storage;

pub use blob::Blobs;
pub use books::{Book, Books};
pub use counter::Nodes;

/// A future that can be handed to any task.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Opens the engine under test on one database: at first an empty one with its schema in place, after a
/// [`crate::Engine::close`] the same one again.
#[derive(Clone)]
pub struct Factory {
    open: Arc<dyn Fn() -> BoxFuture<Storage> + Send + Sync>,
}

impl Factory {
    /// A factory that opens by this function.
    pub fn new<F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Storage> + Send + 'static,
    {
        Self {
            open: Arc::new(move || Box::pin(open())),
        }
    }

    /// Opens the engine.
    pub async fn open(&self) -> Storage {
        (self.open)().await
    }
}

/// Writes one `#[test]` for each case, in a module for each part of the suite.
///
/// `$run` is the absolute path of a function `fn(impl FnOnce(Factory) -> BoxFuture<()>)`.
#[macro_export]
macro_rules! conformance_tests {
    ($run:path) => {
        $crate::books_conformance_tests! { $run }
        $crate::conformance_tests! { @each $run;
            account: create_then_get, create_twice_is_a_conflict, list_pages_in_order_of_id, changes_are_of_what_is_said,
                changes_at_once_are_all_kept, test_clocks_go_forward, unknown_account_is_not_found;
            key: create_then_find, unknown_digest_finds_nothing, is_changed, revoked_and_suspended_are_found, list_is_of_one_account,
                unknown_account_is_not_found, same_id_or_digest_is_a_conflict, quota_counts_keys_not_revoked, own_limit_replaces_the_quota,
                quota_holds_under_concurrency, first_revocation_stays, unknown_key_is_not_found;
            price: recorded_then_read, recorded_stays_as_it_is, unknown_version_is_none, newest_change_is_in_force,
                same_version_is_no_change;
            notice: alerts_are_set, low_is_noted_once, due_is_claimed_once, done_is_swept;
            top_up: written_then_read, paid_once, one_pending_by_itself, used_id_and_unknown_account, first_payer_stays,
                set_what_comes_by_itself;
            provider_subscription: written_then_read, paid_by_one, refused_has_to_end, owed_and_differing,
                used_id_and_unknown_account;
            response: saved_then_read, saved_once, answers_are_of_one_account, found_by_its_items, chain_goes_back,
                chain_is_read_up_to_its_bytes, circle_ends, deleted_once, expired_is_gone, sweep_deletes_what_expired;
            media: inserted_then_read, inserted_once, media_are_of_one_account, kept_longer_within_bounds,
                forgotten_leaves_a_tombstone;
            batch: begun_and_ended_once, written_under_its_lease, lines_are_of_the_books, freed_is_of_lines_that_have_ended,
                deaths_count_in_a_row;
            file: kept_then_read, ids_are_used_once, files_are_of_one_account, listed_in_pages, room_is_bounded,
                the_last_room_is_given_once, deleted_is_gone_and_then_forgotten, begun_is_kept_or_left_over;
            calibration: inserted_then_read, versions_count_up_and_are_not_used_again, calibrations_are_of_one_account,
                listed_in_pages, room_is_bounded, the_last_room_is_given_once, the_newest_or_the_chosen_is_the_default,
                ids_are_used_once;
            idempotency: one_claim_is_first, answer_is_kept_for_the_same_request, released_key_is_claimed_anew,
                abandoned_and_expired_claims_are_void, keys_are_of_one_account, sweep_deletes_what_expired;
            label_prior: the_last_one_counts;
            admin: create_then_find, names_ids_and_digests_are_used_once, first_revocation_stays;
            audit_log: appended_then_read_in_pages, every_filter;
            member: added_then_listed, changed_and_removed, an_owner_remains, owners_removed_at_once_leave_one;
            open_hold: shows_every_book, used_id_is_a_conflict, same_hold_id_is_taken_once;
            engine: answers_and_is_named, what_is_written_is_there_after_reopening, open_hold_survives_reopening;
        }
    };
    (@each $run:path; $($module:ident: $($case:ident),+;)+) => {
        $(mod $module {
            $(#[test]
            fn $case() {
                $run(|factory| ::std::boxed::Box::pin($crate::conformance::$module::$case(factory)));
            })+
        })+
    };
}

/// The part of [`conformance_tests`] that is about the books, for engines that are set up to keep them in another way.
#[macro_export]
macro_rules! books_conformance_tests {
    ($run:path) => {
        $crate::conformance_tests! { @each $run;
            hold: amount_moves_from_credits, denied_writes_nothing, last_credit_is_spendable, unknown_account_is_not_found,
                free_hold_writes_no_transfer, negative_amount_is_refused;
            settle: charge_and_rest_are_moved, whole_hold_is_charged, void_gives_all_back, charge_is_cut_to_the_hold,
                overrun_is_borne_by_the_operator, free_call_writes_its_usage_row_only, second_answers_the_first_result,
                unknown_hold_is_not_found, hold_of_another_account_is_not_found, negative_amounts_are_refused;
            grant: adds_to_credits, same_id_is_one_grant, same_id_for_another_account_is_a_conflict,
                sum_that_does_not_fit_is_a_conflict, unknown_account_is_not_found, amount_must_be_positive;
            lot: grant_makes_a_lot, gifts_are_grants, spending_burns_in_order, spending_before_a_grant_burns_what_there_was,
                what_is_over_expires, looking_has_them_expire, what_calls_hold_expires_after_them,
                allowances_hold_no_lots, rounds_at_once_expire_once, unknown_account_is_not_found,
                assigning_later_is_burning_at_once;
            plan: allowance_is_drawn_first, partly_covered_call_is_paid_first_by_the_allowance, zero_balance_runs_what_is_covered,
                denied_consumes_neither, model_that_is_not_covered_costs_credits, free_call_draws_on_nothing,
                every_part_goes_back, weeks_are_half_open, week_is_opened_once_by_many, clock_jumps,
                denied_in_a_new_week_opens_nothing, rest_of_a_closed_week_is_breakage, terms_are_frozen_in_the_hold,
                sweep_returns_the_allowance, spendable_is_what_a_hold_could_take, holds_at_once_never_overdraw,
                survives_reopening;
            subscription: first_fee_and_week_are_one_step, fee_that_is_not_covered_writes_nothing,
                one_plan_at_a_time, many_at_once_are_one_plan, agents_have_no_weeks, provider_pays_nothing_here,
                renewal_is_paid_once, renewals_at_once_are_one, renewal_that_is_not_covered_changes_nothing,
                past_due_gives_no_access, cancel_and_resume, end_breaks_what_is_left, every_change_is_an_event,
                due_are_those_whose_time_is_over, unknown_is_not_found, new_plan_after_the_end,
                another_takes_its_place, replacement_that_is_not_covered_changes_nothing, next_plan_is_kept;
            concurrency: holds_never_overspend, holds_and_settles_never_overspend, settles_resolve_once,
                same_grant_id_is_granted_once, sweep_and_settle_resolve_once,
                accounts_do_not_deadlock, every_audit_is_of_one_instant;
            sweep: voids_what_expired_only, at_most_the_limit, settle_after_the_sweep_answers_it;
            usage: row_keeps_everything, newest_first_in_pages, every_filter, filters_join,
                rows_are_of_one_account;
            total: sums_by_group, no_rows_no_groups, sums_every_class;
            refund: charge_becomes_a_lot, no_more_than_the_charge_is_given_back, same_id_is_one_refund,
                allowance_goes_back_to_its_open_week, allowance_of_a_closed_week_is_not_given_back,
                call_without_a_row_is_not_found, survives_reopening, refunds_at_once_give_back_no_more,
                purchase_is_taken_back, purchase_is_taken_back_in_parts, only_purchases_are_taken_back;
            job: accepted_with_its_hold, denied_keeps_nothing, same_id_is_a_conflict,
                jobs_are_of_one_account, listed_in_pages, found_in_every_account, leased_by_one_at_a_time,
                renewed_leases_go_on, released_jobs_wait_until_they_are_due, who_has_least_comes_first,
                claims_at_once_share_nothing, steps_go_one_way, an_advance_is_whole,
                finished_with_its_settlement, holds_shrink_while_their_jobs_run, holds_with_an_allowance_shrink_by_credits,
                holds_shrink_a_few_times, failed_with_its_reason, cancelled_before_it_was_begun, cancelling_is_told_once,
                expired_costs_nothing, events_follow_one_another, swept_when_it_ended_long_ago,
                forgotten_once_it_has_ended, survives_reopening;
            part: parts_end_with_their_job, parts_are_of_one_account, parts_outlive_their_job;
            webhook: due_when_its_job_has_ended, nobody_is_told_of_other_jobs, leased_by_one_at_a_time,
                sent_again_until_it_arrives_or_is_given_up, who_has_least_comes_first, kept_until_it_is_told,
                due_again_after_reopening, one_secret_after_another;
            report: transfers_come_in_pages, spans_are_half_open, sums_are_of_transfers;
            audit: empty_database_shows_nothing;
        }
    };
}

/// Writes one `#[test]` for each case of [`counter`]: a port of its own, whose engines keep nothing else.
///
/// `$run` is the absolute path of a function `fn(impl FnOnce(Nodes) -> BoxFuture<()>)`.
#[macro_export]
macro_rules! counter_conformance_tests {
    ($run:path) => {
        $crate::counter_conformance_tests! { @each $run;
            counter: request_counts_for_a_minute, refusal_says_when_it_fits, nothing_admits_nothing,
                more_than_the_limit_never_fits, correction_frees_what_was_not_used, correction_may_exceed_the_limit,
                long_call_gives_back_what_it_holds, accounts_and_budgets_are_apart, looking_counts_nothing,
                huge_numbers_saturate, high_limit_is_kept, requests_at_once_share_one_limit;
        }
    };
    (@each $run:path; $module:ident: $($case:ident),+;) => {
        $(#[test]
        fn $case() {
            $run(|nodes| ::std::boxed::Box::pin($crate::conformance::$module::$case(nodes)));
        })+
    };
}

/// Writes one `#[test]` for each case of [`blob`]: a port of its own, whose engines keep nothing else.
///
/// `$run` is the absolute path of a function `fn(impl FnOnce(Blobs) -> BoxFuture<()>)`.
#[macro_export]
macro_rules! blob_conformance_tests {
    ($run:path) => {
        $crate::blob_conformance_tests! { @each $run;
            blob: put_then_read, unknown_key_is_not_there, ranges_are_cut_to_the_object, empty_object,
                large_object_is_streamed, overwriting_is_refused, more_than_allowed_is_refused,
                failing_content_leaves_nothing, dropped_put_leaves_nothing, deleted_twice, puts_at_once,
                accounts_are_apart, probe_leaves_nothing;
        }
    };
    (@each $run:path; $module:ident: $($case:ident),+;) => {
        $(#[test]
        fn $case() {
            $run(|blobs| ::std::boxed::Box::pin($crate::conformance::$module::$case(blobs)));
        })+
    };
}

#[cfg(test)]
mod tests {
    /// The list in the macro against the functions in the files: a case that is not listed would never run.
    #[test]
    fn every_case_is_listed() {
        let listed = include_str!("mod.rs");
        let files = [
            ("account", include_str!("account.rs")),
            ("admin", include_str!("admin.rs")),
            ("audit", include_str!("audit.rs")),
            ("audit_log", include_str!("audit_log.rs")),
            ("blob", include_str!("blob.rs")),
            ("concurrency", include_str!("concurrency.rs")),
            ("counter", include_str!("counter.rs")),
            ("engine", include_str!("engine.rs")),
            ("grant", include_str!("grant.rs")),
            ("hold", include_str!("hold.rs")),
            ("idempotency", include_str!("idempotency.rs")),
            ("batch", include_str!("batch.rs")),
            ("calibration", include_str!("calibration.rs")),
            ("file", include_str!("file.rs")),
            ("job", include_str!("job.rs")),
            ("key", include_str!("key.rs")),
            ("label_prior", include_str!("label_prior.rs")),
            ("lot", include_str!("lot.rs")),
            ("media", include_str!("media.rs")),
            ("member", include_str!("member.rs")),
            ("open_hold", include_str!("open_hold.rs")),
            ("part", include_str!("part.rs")),
            ("plan", include_str!("plan.rs")),
            ("price", include_str!("price.rs")),
            ("refund", include_str!("refund.rs")),
            ("report", include_str!("report.rs")),
            ("response", include_str!("response.rs")),
            ("settle", include_str!("settle.rs")),
            ("subscription", include_str!("subscription.rs")),
            ("sweep", include_str!("sweep.rs")),
            ("total", include_str!("total.rs")),
            ("usage", include_str!("usage.rs")),
            ("webhook", include_str!("webhook.rs")),
        ];
        for (module, text) in files {
            let head = format!("            {module}: ");
            let list = listed.split_once(&head).unwrap().1.split_once(';').unwrap().0;
            let listed: Vec<&str> = list.split(',').map(str::trim).collect();
            let written: Vec<&str> = text
                .split("\npub async fn ")
                .skip(1)
                .map(|rest| rest.split_once('(').unwrap().0)
                .collect();
            assert_eq!(listed, written, "{module}");
        }
    }
}
