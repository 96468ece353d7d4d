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

-- Which answer has an item that later requests may name.
CREATE TABLE response_item (
    account_id  BLOB NOT NULL,
    item_id     TEXT NOT NULL,
    response_id BLOB NOT NULL REFERENCES response (id) ON DELETE CASCADE,
    PRIMARY KEY (account_id, item_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX response_item_response ON response_item (response_id);
