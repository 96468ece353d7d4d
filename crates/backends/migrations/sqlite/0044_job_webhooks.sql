-- Lists of the webhooks of an account skip jobs without one.
CREATE INDEX job_webhook_account ON job (account_id, id) WHERE webhook_state IS NOT NULL;
