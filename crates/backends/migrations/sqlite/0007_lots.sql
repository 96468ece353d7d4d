-- Lots: what is left of each grant, and refunds. Spending is assigned to lots later than it happens.

CREATE TABLE credit_lot (
    account_id BLOB    NOT NULL REFERENCES account (id),
    id         BLOB    NOT NULL,
    kind       TEXT    NOT NULL,
    amount     INTEGER NOT NULL CHECK (amount > 0),
    remaining  INTEGER NOT NULL CHECK (remaining >= 0),
    expired    INTEGER NOT NULL CHECK (expired >= 0),
    withdrawn  INTEGER NOT NULL CHECK (withdrawn >= 0),
    priority   INTEGER NOT NULL,
    expires_at INTEGER,
    note       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, id),
    CHECK (remaining + expired + withdrawn <= amount)
) STRICT, WITHOUT ROWID;

CREATE INDEX credit_lot_expiry ON credit_lot (expires_at) WHERE remaining > 0 AND expires_at IS NOT NULL;

-- What accounts have becomes what is left of their newest grants: the oldest were spent first.
INSERT INTO credit_lot
    SELECT account_id, entry_id, 'purchase', amount, max(0, min(amount, funds - newer)), 0, 0, 100, NULL, '',
        created_at
    FROM (SELECT grants.account_id, entry_id, amount, created_at,
            sum(amount) OVER (PARTITION BY grants.account_id ORDER BY created_at DESC, entry_id DESC) - amount AS newer,
            credits.balance + coalesce((SELECT sum(hold.amount - hold.allowance) FROM hold
                WHERE hold.account_id = grants.account_id), 0) AS funds
        FROM transfer AS grants
        JOIN ledger_account AS credits ON credits.account_id = grants.account_id AND credits.kind = 'credits'
        WHERE subject = 'grant');

CREATE TABLE refund (
    id         BLOB    NOT NULL PRIMARY KEY,
    account_id BLOB    NOT NULL,
    hold_id    BLOB    NOT NULL,
    credits    INTEGER NOT NULL CHECK (credits >= 0),
    allowance  INTEGER NOT NULL CHECK (allowance >= 0),
    reason     TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX refund_call ON refund (account_id, hold_id);
CREATE TRIGGER refund_no_update BEFORE UPDATE ON refund
BEGIN SELECT RAISE(ABORT, 'refunds are append-only'); END;
CREATE TRIGGER refund_no_delete BEFORE DELETE ON refund
BEGIN SELECT RAISE(ABORT, 'refunds are append-only'); END;

INSERT INTO ledger_account (account_id, kind, balance)
    SELECT account.id, kinds.column1, 0 FROM account CROSS JOIN
    (VALUES ('expense:goodwill'), ('revenue:refunds')) AS kinds;

-- The same table for any leg. entry_id is the id of what subject says.
CREATE TABLE transfer_of_any_leg (
    account_id    BLOB    NOT NULL,
    entry_id      BLOB    NOT NULL,
    leg           INTEGER NOT NULL CHECK (leg >= 0),
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

INSERT INTO transfer_of_any_leg SELECT * FROM transfer;
DROP TABLE transfer;
ALTER TABLE transfer_of_any_leg RENAME TO transfer;

CREATE UNIQUE INDEX transfer_grant ON transfer (entry_id) WHERE subject = 'grant';
CREATE TRIGGER transfer_no_update BEFORE UPDATE ON transfer
BEGIN SELECT RAISE(ABORT, 'transfers are append-only'); END;
CREATE TRIGGER transfer_no_delete BEFORE DELETE ON transfer
BEGIN SELECT RAISE(ABORT, 'transfers are append-only'); END;
