-- Answers that callers asked to keep. The content is sealed.

CREATE TABLE response (
    id          BLOB    NOT NULL PRIMARY KEY,
    account_id  BLOB    NOT NULL REFERENCES account (id),
    previous_id BLOB,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    content     BLOB    NOT NULL
) STRICT;

CREATE INDEX response_expires_at ON response (expires_at);
