-- What accounts are told: when a balance counts as low, and what is still to be sent.

CREATE TABLE balance_alert (
    account_id BLOB    NOT NULL PRIMARY KEY REFERENCES account (id),
    below      INTEGER NOT NULL CHECK (below > 0),
    webhook    TEXT,
    email      TEXT,
    secret     INTEGER NOT NULL,
    is_low     INTEGER NOT NULL
) STRICT;

CREATE TABLE notice (
    account_id BLOB    NOT NULL REFERENCES account (id),
    id         BLOB    NOT NULL,
    channel    TEXT    NOT NULL,
    address    TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    attempts   INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    failure    TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT;

CREATE INDEX notice_due ON notice (due_at) WHERE state = 'pending';
CREATE INDEX notice_done ON notice (created_at) WHERE state <> 'pending';
