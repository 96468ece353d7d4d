-- Keys under which callers may repeat a request. Until there is content the request runs; what is kept is sealed.

CREATE TABLE idempotency (
    account_id   BLOB    NOT NULL REFERENCES account (id),
    key          BLOB    NOT NULL,
    fingerprint  BLOB    NOT NULL,
    request_id   BLOB    NOT NULL,
    abandoned_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    content      BLOB,
    PRIMARY KEY (account_id, key)
) STRICT;

CREATE INDEX idempotency_expires_at ON idempotency (expires_at);
