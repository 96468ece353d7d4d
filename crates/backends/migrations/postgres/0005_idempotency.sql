-- Keys under which callers may repeat a request. Until there is content the request runs; what is kept is sealed.

CREATE TABLE idempotency (
    account_id   BYTEA  NOT NULL REFERENCES account (id),
    key          BYTEA  NOT NULL,
    fingerprint  BYTEA  NOT NULL,
    request_id   BYTEA  NOT NULL,
    abandoned_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    content      BYTEA,
    PRIMARY KEY (account_id, key)
);

CREATE INDEX idempotency_expires_at ON idempotency (expires_at);

-- What is sealed does not get smaller.
ALTER TABLE idempotency ALTER COLUMN content SET STORAGE EXTERNAL;
