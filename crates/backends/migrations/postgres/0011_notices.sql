-- What accounts are told: when a balance counts as low, and what is still to be sent.

CREATE TABLE balance_alert (
    account_id BYTEA  NOT NULL PRIMARY KEY REFERENCES account (id),
    below      BIGINT NOT NULL CHECK (below > 0),
    webhook    TEXT,
    email      TEXT,
    secret     BIGINT NOT NULL,
    is_low     BIGINT NOT NULL
);

CREATE TABLE notice (
    account_id BYTEA  NOT NULL REFERENCES account (id),
    id         BYTEA  NOT NULL,
    channel    TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    body       TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    attempts   BIGINT NOT NULL,
    due_at     BIGINT NOT NULL,
    failure    TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, id)
);

CREATE INDEX notice_due ON notice (due_at) WHERE state = 'pending';
CREATE INDEX notice_done ON notice (created_at) WHERE state <> 'pending';
