-- Purchases of credits through a payment provider, who pays there, and which balances are filled up by themselves.

CREATE TABLE payer (
    account_id BLOB    NOT NULL REFERENCES account (id),
    provider   TEXT    NOT NULL,
    payer      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, provider)
) STRICT;

CREATE TABLE top_up (
    account_id BLOB    NOT NULL REFERENCES account (id),
    id         BLOB    NOT NULL,
    kind       TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    currency   TEXT    NOT NULL,
    amount     INTEGER NOT NULL CHECK (amount > 0),
    credits    INTEGER NOT NULL CHECK (credits > 0),
    reference  TEXT,
    grant_id   BLOB,
    returned   INTEGER NOT NULL CHECK (returned BETWEEN 0 AND amount),
    failure    TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT;

CREATE INDEX top_up_id ON top_up (id);
CREATE INDEX top_up_reference ON top_up (reference) WHERE reference IS NOT NULL;
-- One balance is filled up once at a time.
CREATE UNIQUE INDEX top_up_pending_auto ON top_up (account_id) WHERE kind = 'auto' AND state = 'pending';

CREATE TABLE auto_top_up (
    account_id    BLOB    NOT NULL PRIMARY KEY REFERENCES account (id),
    below         INTEGER NOT NULL CHECK (below > 0),
    amount        INTEGER NOT NULL CHECK (amount > 0),
    monthly_limit INTEGER NOT NULL CHECK (monthly_limit > 0),
    failures      INTEGER NOT NULL
) STRICT;
