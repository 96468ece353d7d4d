-- Subscriptions that a payment provider renews. id is that of the subscription, which there is from the first payment on; course is
-- what the provider is known to do when a period is over.

CREATE TABLE provider_subscription (
    account_id BLOB    NOT NULL REFERENCES account (id),
    id         BLOB    NOT NULL,
    provider   TEXT    NOT NULL,
    plan       TEXT    NOT NULL,
    price      INTEGER NOT NULL CHECK (price >= 0),
    cadence    TEXT    NOT NULL,
    allowance  INTEGER NOT NULL CHECK (allowance >= 0),
    currency   TEXT    NOT NULL,
    amount     INTEGER NOT NULL CHECK (amount > 0),
    state      TEXT    NOT NULL,
    checkout   TEXT,
    reference  TEXT,
    course     TEXT,
    invoice    TEXT,
    failure    TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT;

CREATE INDEX provider_subscription_id ON provider_subscription (id);
CREATE INDEX provider_subscription_reference ON provider_subscription (reference) WHERE reference IS NOT NULL;
CREATE INDEX provider_subscription_live ON provider_subscription (updated_at) WHERE course <> 'ended';
