-- Plans: subscriptions, weekly allowances, and the parts of the books that they need.

CREATE TABLE subscription (
    id                   BLOB    NOT NULL PRIMARY KEY,
    account_id           BLOB    NOT NULL REFERENCES account (id),
    product              TEXT    NOT NULL,
    subject              TEXT    NOT NULL,
    price                INTEGER NOT NULL CHECK (price >= 0),
    cadence              TEXT    NOT NULL,
    payer                TEXT    NOT NULL,
    allowance            INTEGER NOT NULL CHECK (allowance >= 0),
    anchor               INTEGER NOT NULL,
    period               INTEGER NOT NULL,
    paid_through         INTEGER NOT NULL,
    cancel_at_period_end INTEGER NOT NULL,
    past_due_since       INTEGER,
    state                TEXT    NOT NULL,
    window_number        INTEGER
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX subscription_one_plan ON subscription (account_id)
    WHERE product = 'plan' AND state IN ('active', 'past_due');
CREATE INDEX subscription_account ON subscription (account_id, id);
CREATE INDEX subscription_due ON subscription (paid_through) WHERE state IN ('active', 'past_due');

CREATE TABLE subscription_event (
    subscription_id BLOB    NOT NULL,
    number          INTEGER NOT NULL,
    kind            TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    period          INTEGER NOT NULL,
    at              INTEGER NOT NULL,
    PRIMARY KEY (subscription_id, number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER subscription_event_no_update BEFORE UPDATE ON subscription_event
BEGIN SELECT RAISE(ABORT, 'subscription events are append-only'); END;
CREATE TRIGGER subscription_event_no_delete BEFORE DELETE ON subscription_event
BEGIN SELECT RAISE(ABORT, 'subscription events are append-only'); END;

-- The part of a hold that is of an allowance, and the plan that applied; window_id names the week in the ledger.
ALTER TABLE hold ADD COLUMN allowance INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hold ADD COLUMN plan_name TEXT;
ALTER TABLE hold ADD COLUMN window_id BLOB;

-- The part of a charge that an allowance paid.
ALTER TABLE usage_row ADD COLUMN included INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN plan_name TEXT;
ALTER TABLE usage_row ADD COLUMN window_id BLOB;

-- The same table with one more account that may not go below zero.
CREATE TABLE ledger_account_with_plans (
    account_id BLOB    NOT NULL REFERENCES account (id),
    kind       TEXT    NOT NULL,
    balance    INTEGER NOT NULL,
    PRIMARY KEY (account_id, kind),
    CHECK (balance >= 0 OR kind NOT IN ('credits', 'hold', 'allowance'))
) STRICT, WITHOUT ROWID;

INSERT INTO ledger_account_with_plans (account_id, kind, balance)
    SELECT account_id, kind, balance FROM ledger_account;
INSERT INTO ledger_account_with_plans (account_id, kind, balance)
    SELECT account.id, kinds.column1, 0 FROM account CROSS JOIN
    (VALUES ('allowance'), ('grant:plan'), ('revenue:included'), ('revenue:plan'), ('breakage')) AS kinds;
DROP TABLE ledger_account;
ALTER TABLE ledger_account_with_plans RENAME TO ledger_account;

-- The same table with more legs. entry_id is the id of the hold, of the grant, of the week or of the paid period.
CREATE TABLE transfer_with_plans (
    account_id    BLOB    NOT NULL,
    entry_id      BLOB    NOT NULL,
    leg           INTEGER NOT NULL CHECK (leg BETWEEN 0 AND 11),
    subject       TEXT    NOT NULL,
    debit         TEXT    NOT NULL,
    credit        TEXT    NOT NULL,
    amount        INTEGER NOT NULL CHECK (amount > 0),
    created_at    INTEGER NOT NULL,
    price_version INTEGER,
    prev_hash     BLOB,
    hash          BLOB,
    PRIMARY KEY (account_id, entry_id, leg)
) STRICT, WITHOUT ROWID;

INSERT INTO transfer_with_plans SELECT * FROM transfer;
DROP TABLE transfer;
ALTER TABLE transfer_with_plans RENAME TO transfer;

CREATE UNIQUE INDEX transfer_grant ON transfer (entry_id) WHERE leg = 0;
CREATE TRIGGER transfer_no_update BEFORE UPDATE ON transfer
BEGIN SELECT RAISE(ABORT, 'transfers are append-only'); END;
CREATE TRIGGER transfer_no_delete BEFORE DELETE ON transfer
BEGIN SELECT RAISE(ABORT, 'transfers are append-only'); END;
