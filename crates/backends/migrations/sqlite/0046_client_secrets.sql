-- Client secrets of realtime sessions. A secret belongs to a key or to a member, which may have been
-- removed. session is encrypted; allowed_origins is a JSON array.
CREATE TABLE client_secret (
    account_id      BLOB    NOT NULL REFERENCES account (id),
    id              BLOB    NOT NULL,
    key_id          BLOB,
    member_id       BLOB,
    digest          BLOB    NOT NULL,
    digest_prefix   BLOB    NOT NULL,
    session         BLOB    NOT NULL,
    model           TEXT,
    max_cost        INTEGER,
    spent           INTEGER NOT NULL CHECK (spent >= 0),
    max_seconds     INTEGER,
    allowed_origins TEXT    NOT NULL,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    PRIMARY KEY (account_id, id),
    CHECK ((key_id IS NULL) <> (member_id IS NULL))
) STRICT;

CREATE UNIQUE INDEX client_secret_digest_prefix ON client_secret (digest_prefix);
CREATE INDEX client_secret_live ON client_secret (account_id, expires_at);
CREATE INDEX client_secret_expiry ON client_secret (expires_at);
