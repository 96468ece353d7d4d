//! SQL that closes accounts, shared by SQLite and PostgreSQL. The ledger, usage rows and the audit
//! log are append-only and stay. The statements remove the account's content and the data that
//! identifies the account.

/// Counts jobs that have not ended.
pub(crate) const OPEN_JOBS: &str =
    "SELECT count(*) AS open FROM job WHERE account_id = $1 AND status IN ('queued', 'in_progress')";
/// Counts subscriptions that can still be renewed or paid.
pub(crate) const OPEN_SUBSCRIPTIONS: &str =
    "SELECT count(*) AS open FROM subscription WHERE account_id = $1 AND state IN ('active', 'past_due')";

/// Statements that remove personal data and content. `$1`: the account.
pub(crate) const REMOVE: [&str; 23] = [
    "UPDATE account SET name = 'closed account', state = 'closed' WHERE id = $1",
    "UPDATE api_key SET name = '' WHERE account_id = $1",
    "UPDATE credit_lot SET note = '' WHERE account_id = $1",
    "UPDATE file SET filename = '' WHERE account_id = $1",
    "UPDATE batch_line SET content = substr(content, 1, 0) WHERE account_id = $1",
    "DELETE FROM sign_in_link WHERE account_id = $1 OR member_id IN (SELECT id FROM member WHERE account_id = $1)",
    "DELETE FROM member WHERE account_id = $1",
    "DELETE FROM balance_alert WHERE account_id = $1",
    "DELETE FROM notice WHERE account_id = $1",
    "DELETE FROM webhook_secret WHERE account_id = $1",
    "DELETE FROM auto_top_up WHERE account_id = $1",
    "DELETE FROM payer WHERE account_id = $1",
    "DELETE FROM response_item WHERE account_id = $1",
    "DELETE FROM response WHERE account_id = $1",
    "DELETE FROM idempotency WHERE account_id = $1",
    "DELETE FROM calibration WHERE account_id = $1",
    "DELETE FROM calibration_model WHERE account_id = $1",
    "DELETE FROM chat_turn WHERE account_id = $1",
    "DELETE FROM chat WHERE account_id = $1",
    "DELETE FROM client_secret WHERE account_id = $1",
    "DELETE FROM job_event WHERE account_id = $1",
    "DELETE FROM job_step WHERE account_id = $1",
    "DELETE FROM job WHERE account_id = $1",
];

/// Statements that revoke keys, and mark files as deleted and media as expired. The next
/// maintenance run deletes their bytes. `$1`: the account, `$2`: the time.
pub(crate) const END: [&str; 3] = [
    "UPDATE api_key SET state = 'revoked', revoked_at = coalesce(revoked_at, $2) WHERE account_id = $1",
    "UPDATE file SET deleted_at = $2 WHERE account_id = $1 AND (deleted_at IS NULL OR deleted_at > $2)",
    "UPDATE media SET expires_at = $2 WHERE account_id = $1 AND expires_at > $2 AND deleted_at IS NULL",
];

#[cfg(test)]
pub(crate) fn statements() -> Vec<&'static str> {
    let counts = [OPEN_JOBS, OPEN_SUBSCRIPTIONS];
    counts.into_iter().chain(REMOVE).chain(END).collect()
}
