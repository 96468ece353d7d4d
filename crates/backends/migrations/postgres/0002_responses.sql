-- Answers that callers asked to keep. The content is sealed.

CREATE TABLE response (
    id          BYTEA  NOT NULL PRIMARY KEY,
    account_id  BYTEA  NOT NULL REFERENCES account (id),
    previous_id BYTEA,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    content     BYTEA  NOT NULL
);

-- What is sealed does not get smaller.
ALTER TABLE response ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE INDEX response_expires_at ON response (expires_at);
