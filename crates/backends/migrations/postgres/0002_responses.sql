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

-- Which answer has an item that later requests may name.
CREATE TABLE response_item (
    account_id  BYTEA NOT NULL,
    item_id     TEXT  NOT NULL,
    response_id BYTEA NOT NULL REFERENCES response (id) ON DELETE CASCADE,
    PRIMARY KEY (account_id, item_id)
);

CREATE INDEX response_item_response ON response_item (response_id);
