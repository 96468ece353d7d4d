-- Lists of the webhooks of an account skip jobs without one.
CREATE INDEX job_webhook_account ON job (account_id, id) WHERE webhook_state IS NOT NULL;
-- Open pages follow the unfinished jobs of an account.
CREATE INDEX job_unfinished ON job (account_id, id) WHERE status IN ('queued', 'in_progress');
