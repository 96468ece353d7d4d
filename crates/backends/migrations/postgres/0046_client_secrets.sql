-- Client secrets of realtime sessions. A secret belongs to a key or to a member, which may have been
-- removed. session is encrypted; allowed_origins is a JSON array.
CREATE TABLE client_secret (
    account_id      BYTEA  NOT NULL REFERENCES account (id),
    id              BYTEA  NOT NULL,
    key_id          BYTEA,
    member_id       BYTEA,
    digest          BYTEA  NOT NULL,
    digest_prefix   BYTEA  NOT NULL,
    session         BYTEA  NOT NULL,
    model           TEXT,
    max_cost        BIGINT,
    spent           BIGINT NOT NULL CHECK (spent >= 0),
    max_seconds     BIGINT,
    allowed_origins TEXT   NOT NULL,
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    PRIMARY KEY (account_id, id),
    CHECK ((key_id IS NULL) <> (member_id IS NULL))
);

CREATE UNIQUE INDEX client_secret_digest_prefix ON client_secret (digest_prefix);
CREATE INDEX client_secret_live ON client_secret (account_id, expires_at);
CREATE INDEX client_secret_expiry ON client_secret (expires_at);
