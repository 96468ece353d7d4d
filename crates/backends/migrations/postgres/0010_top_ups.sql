-- Purchases of credits through a payment provider, who pays there, and which balances are filled up by themselves.

CREATE TABLE payer (
    account_id BYTEA  NOT NULL REFERENCES account (id),
    provider   TEXT   NOT NULL,
    payer      TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, provider)
);

CREATE TABLE top_up (
    account_id BYTEA  NOT NULL REFERENCES account (id),
    id         BYTEA  NOT NULL,
    kind       TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    currency   TEXT   NOT NULL,
    amount     BIGINT NOT NULL CHECK (amount > 0),
    credits    BIGINT NOT NULL CHECK (credits > 0),
    reference  TEXT,
    grant_id   BYTEA,
    returned   BIGINT NOT NULL CHECK (returned BETWEEN 0 AND amount),
    failure    TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, id)
);

CREATE INDEX top_up_id ON top_up (id);
CREATE INDEX top_up_reference ON top_up (reference) WHERE reference IS NOT NULL;
-- One balance is filled up once at a time.
CREATE UNIQUE INDEX top_up_pending_auto ON top_up (account_id) WHERE kind = 'auto' AND state = 'pending';

CREATE TABLE auto_top_up (
    account_id    BYTEA  NOT NULL PRIMARY KEY REFERENCES account (id),
    below         BIGINT NOT NULL CHECK (below > 0),
    amount        BIGINT NOT NULL CHECK (amount > 0),
    monthly_limit BIGINT NOT NULL CHECK (monthly_limit > 0),
    failures      BIGINT NOT NULL
);
