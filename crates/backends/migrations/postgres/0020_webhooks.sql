-- Who is told that a job has ended. A delivery is due when its job has ended and webhook_state is 'pending': nothing else notes it. The
-- address is sealed.

ALTER TABLE job ADD COLUMN webhook BYTEA;
ALTER TABLE job ADD COLUMN webhook_state TEXT;
ALTER TABLE job ADD COLUMN webhook_attempts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN webhook_due_at BIGINT NOT NULL DEFAULT 0;
-- Whether an attempt is under way; it is over at webhook_due_at, should nobody tell what became of it.
ALTER TABLE job ADD COLUMN webhook_leased BIGINT NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN webhook_failure TEXT;
ALTER TABLE job ADD COLUMN webhook_delivered_at BIGINT;

CREATE INDEX job_webhook ON job (webhook_due_at) WHERE webhook_state = 'pending' AND completed_at IS NOT NULL;
CREATE INDEX job_webhook_leased ON job (account_id) WHERE webhook_leased = 1;

-- Which of the secrets that an account had one after another its posts are signed with; the first one has no row.
CREATE TABLE webhook_secret (
    account_id BYTEA  NOT NULL REFERENCES account (id),
    number     BIGINT NOT NULL CHECK (number > 1),
    PRIMARY KEY (account_id)
);

INSERT INTO webhook_secret (account_id, number) SELECT account_id, secret FROM balance_alert WHERE secret > 1;
