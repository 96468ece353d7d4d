//! The conformance suite: the tests that every storage engine must pass.
//!
//! Each case is an async function with a [`Factory`] for an empty database as its parameter. An
//! engine's test file generates one `#[test]` for each case with
//! [`conformance_tests!`](crate::conformance_tests), for a function that creates the database,
//! starts a runtime, runs the case and removes the database. Ids are small numbers, times are
//! fixed, and no case sleeps.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a case fails by panicking, like any test"
)]

mod ledger_snapshot;
mod samples;

pub mod account;
pub mod admin;
pub mod audit;
pub mod audit_log;
pub mod batch;
pub mod blob;
pub mod calibration;
pub mod call;
pub mod chat;
pub mod client_secret;
pub mod concurrency;
pub mod counter;
pub mod engine;
pub mod file;
pub mod grant;
pub mod hold;
pub mod idempotency;
pub mod job;
pub mod job_cap;
pub mod key;
pub mod label_prior;
pub mod lot;
pub mod media;
pub mod member;
pub mod notice;
pub mod open_hold;
pub mod part;
pub mod person;
pub mod plan;
pub mod price;
pub mod provider_subscription;
pub mod refund;
pub mod report;
pub mod response;
pub mod series;
pub mod session;
pub mod settle;
pub mod subscription;
pub mod sweep;
pub mod top_up;
pub mod total;
pub mod usage;
pub mod usage_hour;
pub mod webhook;

use std::pin::Pin;
use std::sync::Arc;

use crate::Storage;

pub use blob::Blobs;
pub use counter::Nodes;
pub use ledger_snapshot::{AccountLedger, LedgerSnapshot};

/// A boxed future that can run on any task.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Opens the engine under test on one database: first empty with its schema, and after a
/// [`crate::Engine::close`] with the earlier data.
#[derive(Clone)]
pub struct Factory {
    open: Arc<dyn Fn() -> BoxFuture<Storage> + Send + Sync>,
}

impl Factory {
    /// Makes a factory from the function that opens the engine.
    pub fn new<F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Storage> + Send + 'static,
    {
        Self {
            open: Arc::new(move || Box::pin(open())),
        }
    }

    /// Opens the engine on the database of this case.
    pub async fn open(&self) -> Storage {
        (self.open)().await
    }
}

/// Generates one `#[test]` for each case, in a module for each part of the suite.
///
/// `$run` is the absolute path of a function `fn(impl FnOnce(Factory) -> BoxFuture<()>)`.
#[macro_export]
macro_rules! conformance_tests {
    ($run:path) => {
        $crate::ledger_conformance_tests! { $run }
        $crate::conformance_tests! { @each $run;
            account: create_then_get, create_twice_is_a_conflict, list_pages_in_order_of_id, changes_leave_other_fields,
                concurrent_changes_are_all_applied, test_clocks_go_forward, unknown_account_is_not_found, closed_accounts_keep_only_their_ledger,
                accounts_with_open_work_are_not_closed;
            key: create_then_find, unknown_digest_finds_nothing, is_changed, rights_change, revoked_and_suspended_are_found, list_covers_one_account,
                unknown_account_is_not_found, same_id_or_digest_is_a_conflict, quota_counts_keys_not_revoked, own_limit_replaces_the_quota,
                quota_holds_under_concurrency, rotation_replaces_the_key, rotation_retains_an_earlier_expiry, quota_ignores_replaced_keys,
                rotation_works_at_the_full_quota, rotations_stay_within_one_account, conflicting_rotations_write_nothing,
                rotating_twice_revokes_the_first_key, concurrent_rotations_succeed_once, quota_holds_during_rotations,
                revocations_and_rotations_are_serial, first_revocation_stays, unknown_key_is_not_found;
            price: recorded_then_read, recorded_versions_never_change, unknown_version_is_none, newest_change_is_active,
                same_version_is_no_change;
            notice: alerts_are_set, low_balance_is_recorded_once, due_notices_are_claimed_once, notices_dated_by_a_fast_clock_are_due, finished_notices_are_swept;
            top_up: written_then_read, paid_once, one_automatic_top_up_is_pending, used_id_and_unknown_account, first_payer_stays,
                automatic_top_ups_are_configured;
            provider_subscription: written_then_read, paid_by_one_provider_subscription, refused_subscriptions_have_to_end, due_and_out_of_sync_are_listed,
                used_id_and_unknown_account;
            response: saved_then_read, saved_once, responses_belong_to_one_account, found_by_its_items, chain_goes_back,
                chain_is_read_up_to_its_bytes, cyclic_chains_end, deleted_once, expired_responses_are_not_found, sweep_deletes_expired_rows;
            media: inserted_then_read, inserted_once, media_belong_to_one_account, retention_is_extended_within_bounds,
                forgotten_leaves_a_tombstone;
            batch: lines_start_and_end_once, written_under_its_lease, charged_lines_outlive_their_batch, unused_hold_counts_ended_lines,
                deaths_count_in_a_row;
            file: inserted_then_read, ids_are_used_once, files_belong_to_one_account, listed_in_pages, quota_is_enforced,
                concurrent_inserts_respect_the_quota, deleted_files_are_hidden_then_forgotten, uploads_are_inserted_or_left_over;
            calibration: inserted_then_read, versions_increase_and_are_never_reused, calibrations_belong_to_one_account,
                listed_in_pages, quota_is_enforced, concurrent_inserts_respect_the_quota, the_newest_or_the_chosen_is_the_default,
                ids_are_used_once;
            chat: saved_then_read, turns_are_replaced_from_a_position, repeated_saves_write_nothing, other_revisions_conflict,
                cap_is_enforced, own_limit_replaces_the_cap, concurrent_saves_respect_the_cap,
                concurrent_saves_of_one_revision_succeed_once, size_is_limited, last_updated_first_in_pages, renamed_between_saves,
                chats_belong_to_one_account, deleted_with_their_turns, deleted_by_creator, unknown_and_closed_accounts_save_nothing;
            usage_hour: series_do_not_change, open_holds_stop_the_mark, concurrent_steps_sum_once, steps_are_bounded,
                accounts_behind_are_listed, test_clocks_have_no_sums, survives_reopening;
            idempotency: one_claim_is_first, answer_is_replayed_for_the_same_request, released_key_is_claimed_anew,
                abandoned_and_expired_claims_are_void, keys_belong_to_one_account, sweep_deletes_expired_rows;
            label_prior: last_save_wins;
            admin: create_then_find, names_ids_and_digests_are_used_once, first_revocation_stays;
            audit_log: appended_then_read_in_pages, every_filter;
            member: added_then_listed, found_by_person, changed_and_removed, an_owner_remains, owners_removed_at_once_leave_one;
            person: links_create_their_people, whole_digest_is_compared, links_expire, links_replace_earlier_ones,
                listeners_redeem_their_own_links, links_end_with_their_targets, known_members_are_signed_in,
                known_addresses_need_sign_in, visitors_become_the_first_owner, signed_in_people_become_the_first_owner,
                members_become_the_first_owner, first_owner_is_signed_in, concurrent_redemptions_succeed_once,
                concurrent_redemptions_create_one_person, concurrent_visitors_create_one_owner, people_are_changed,
                conflicting_changes_write_nothing, passwords_are_replaced, resets_delete_the_password, memberships_are_listed, invitations_are_listed,
                failures_are_counted_by_period, sweep_deletes_ended_rows;
            session: created_then_found, replaced_in_one_step, last_use_goes_forward, deleted_by_their_owner,
                others_are_deleted, sweep_deletes_expired_and_idle;
            client_secret: created_then_found, invalid_secrets_write_nothing, live_secrets_are_limited,
                concurrent_creations_respect_the_maximum, reservations_end_at_the_maximum, invalid_reservations_change_nothing,
                concurrent_reservations_never_exceed_the_maximum, survives_reopening, sweep_deletes_expired_secrets;
            open_hold: shows_every_account_ledger, used_id_is_a_conflict, same_hold_id_is_taken_once;
            engine: answers_and_is_named, writes_survive_reopening, open_hold_survives_reopening;
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

/// The part of [`conformance_tests`] that concerns the ledger, for engines with another ledger
/// configuration.
#[macro_export]
macro_rules! ledger_conformance_tests {
    ($run:path) => {
        $crate::conformance_tests! { @each $run;
            hold: amount_moves_from_credits, denied_writes_nothing, last_credit_is_spendable, unknown_account_is_not_found,
                free_hold_writes_no_transfer, negative_amount_is_refused;
            settle: charge_and_rest_are_moved, whole_hold_is_charged, void_releases_the_whole_hold, charge_is_cut_to_the_hold,
                overrun_is_borne_by_the_operator, free_call_writes_its_usage_row_only, second_settlement_returns_the_first_result,
                unknown_hold_is_not_found, hold_of_another_account_is_not_found, negative_amounts_are_refused;
            grant: adds_to_credits, same_id_is_one_grant, same_id_for_another_account_is_a_conflict,
                sum_that_does_not_fit_is_a_conflict, unknown_account_is_not_found, amount_must_be_positive;
            lot: grant_makes_a_lot, promotions_are_granted_once, spending_burns_in_order, spending_before_a_grant_burns_older_lots,
                lots_expire_at_their_time, reading_lots_expires_them, held_credits_expire_after_their_calls,
                allowances_hold_no_lots, concurrent_sweeps_expire_once, unknown_account_is_not_found,
                deferred_assignment_equals_immediate_burning;
            plan: allowance_is_drawn_first, partly_covered_call_is_paid_first_by_the_allowance, zero_balance_runs_what_is_covered,
                denied_consumes_neither, model_that_is_not_covered_costs_credits, free_call_draws_on_nothing,
                void_calls_restore_every_part, weeks_are_half_open, concurrent_calls_open_a_week_once, clock_jumps,
                denied_in_a_new_week_opens_nothing, rest_of_a_closed_week_is_breakage, terms_are_frozen_in_the_hold,
                sweep_returns_the_allowance, spendable_is_what_a_hold_could_take, concurrent_holds_never_overdraw,
                survives_reopening;
            subscription: first_fee_and_week_are_one_step, fee_that_is_not_covered_writes_nothing,
                one_plan_at_a_time, concurrent_subscriptions_make_one_plan, agents_have_no_weeks, provider_paid_plans_move_no_credits,
                renewal_is_paid_once, concurrent_renewals_pay_once, renewal_that_is_not_covered_changes_nothing,
                past_due_gives_no_access, cancel_and_resume, end_moves_the_allowance_to_breakage, every_change_is_an_event,
                due_subscriptions_have_ended_periods, unknown_is_not_found, new_plan_after_the_end,
                replacement_takes_over, replacement_that_is_not_covered_changes_nothing, next_plan_is_stored;
            concurrency: holds_never_overspend, holds_and_settles_never_overspend, settles_resolve_once,
                same_grant_id_is_granted_once, sweep_and_settle_resolve_once,
                accounts_do_not_deadlock, every_audit_is_of_one_instant;
            sweep: voids_only_expired_holds, sweep_respects_the_limit, settle_after_the_sweep_returns_its_result;
            usage: rows_store_every_field, newest_first_in_pages, every_filter, filters_join, models_are_canonical,
                rows_belong_to_one_account, principals_are_recorded, keys_have_their_last_use;
            call: every_page_continues_the_last, pages_read_a_bounded_number, members_and_outcomes, time_ranges_end_the_scan;
            series: sums_by_span_and_group, ranges_are_half_open, test_clocks_are_ahead_of_ids;
            total: sums_by_group, no_rows_no_groups, sums_every_class;
            refund: charge_becomes_a_lot, refunds_never_exceed_the_charge, same_id_is_one_refund,
                allowance_returns_to_its_open_week, allowance_of_a_closed_week_is_not_refunded,
                call_without_a_row_is_not_found, survives_reopening, concurrent_refunds_never_exceed_the_charge,
                purchase_is_taken_back, purchase_is_taken_back_in_parts, promotion_is_taken_back, only_grants_are_taken_back;
            job: accepted_with_its_hold, denied_jobs_write_nothing, same_id_is_a_conflict,
                jobs_belong_to_one_account, listed_in_pages, search_covers_every_account, leased_by_one_at_a_time, deaths_count_while_working,
                renewed_leases_last, released_jobs_wait_until_they_are_due, jobs_dated_by_a_fast_clock_are_due,
                accounts_take_turns,
                concurrent_claims_are_disjoint, steps_go_one_way, advances_are_atomic,
                finished_with_its_settlement, holds_shrink_while_their_jobs_run, holds_with_an_allowance_shrink_by_credits,
                holds_shrink_a_few_times, failed_with_its_reason, queued_jobs_are_cancelled_for_free, cancelling_event_is_written_once,
                expired_costs_nothing, events_are_numbered_in_order, old_jobs_are_swept,
                ended_jobs_are_forgotten, survives_reopening, open_jobs_show_progress;
            job_cap: caps_hold_per_account_and_worker, capped_jobs_block_no_others, expired_leases_free_capped_slots,
                each_kind_has_its_cap, concurrent_claims_respect_caps;
            part: parts_end_with_their_job, parts_belong_to_one_account, parts_outlive_their_job;
            webhook: deliveries_dated_by_a_fast_clock_are_due, due_when_its_job_has_ended, jobs_without_a_webhook_have_no_delivery, leased_by_one_at_a_time,
                failed_deliveries_are_retried, accounts_take_turns, jobs_stay_until_delivered,
                due_again_after_reopening, secrets_are_numbered, listed_and_delivered_again;
            report: transfers_come_in_pages, spans_are_half_open, sums_cover_one_account;
            audit: empty_database_shows_nothing;
        }
    };
}

/// Generates one `#[test]` for each case of [`counter`], a separate port: its engines store nothing
/// else.
///
/// `$run` is the absolute path of a function `fn(impl FnOnce(Nodes) -> BoxFuture<()>)`.
#[macro_export]
macro_rules! counter_conformance_tests {
    ($run:path) => {
        $crate::counter_conformance_tests! { @each $run;
            counter: request_counts_for_a_minute, refusal_reports_when_it_fits, zero_limit_admits_nothing,
                more_than_the_limit_never_fits, correction_frees_unused_tokens, correction_may_exceed_the_limit,
                long_calls_release_their_reservation, accounts_and_budgets_are_separate, peeking_counts_nothing,
                huge_numbers_saturate, high_limit_is_enforced, concurrent_requests_share_one_limit;
        }
    };
    (@each $run:path; $module:ident: $($case:ident),+;) => {
        $(#[test]
        fn $case() {
            $run(|nodes| ::std::boxed::Box::pin($crate::conformance::$module::$case(nodes)));
        })+
    };
}

/// Generates one `#[test]` for each case of [`blob`], a separate port: its engines store nothing
/// else.
///
/// `$run` is the absolute path of a function `fn(impl FnOnce(Blobs) -> BoxFuture<()>)`.
#[macro_export]
macro_rules! blob_conformance_tests {
    ($run:path) => {
        $crate::blob_conformance_tests! { @each $run;
            blob: put_then_read, unknown_key_is_not_found, ranges_are_cut_to_the_object, empty_object,
                large_object_is_streamed, overwriting_is_refused, oversized_content_is_refused,
                failing_content_leaves_nothing, dropped_put_leaves_nothing, deleted_twice, concurrent_puts_store_one,
                accounts_are_separate, probe_leaves_nothing;
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
    /// Compares the list in the macro with the functions in the files: a case missing in the list
    /// would never run.
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
            ("call", include_str!("call.rs")),
            ("chat", include_str!("chat.rs")),
            ("client_secret", include_str!("client_secret.rs")),
            ("file", include_str!("file.rs")),
            ("job", include_str!("job.rs")),
            ("job_cap", include_str!("job_cap.rs")),
            ("key", include_str!("key.rs")),
            ("label_prior", include_str!("label_prior.rs")),
            ("lot", include_str!("lot.rs")),
            ("media", include_str!("media.rs")),
            ("member", include_str!("member.rs")),
            ("open_hold", include_str!("open_hold.rs")),
            ("part", include_str!("part.rs")),
            ("person", include_str!("person.rs")),
            ("plan", include_str!("plan.rs")),
            ("price", include_str!("price.rs")),
            ("refund", include_str!("refund.rs")),
            ("report", include_str!("report.rs")),
            ("response", include_str!("response.rs")),
            ("series", include_str!("series.rs")),
            ("session", include_str!("session.rs")),
            ("settle", include_str!("settle.rs")),
            ("subscription", include_str!("subscription.rs")),
            ("sweep", include_str!("sweep.rs")),
            ("total", include_str!("total.rs")),
            ("usage", include_str!("usage.rs")),
            ("usage_hour", include_str!("usage_hour.rs")),
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
