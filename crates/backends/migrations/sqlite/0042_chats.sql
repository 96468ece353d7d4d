-- Saved chats of the playground. title, settings and body are encrypted.

-- created_by may name a removed member. saved is the digest of the last save.
CREATE TABLE chat (
    account_id BLOB    NOT NULL REFERENCES account (id),
    id         BLOB    NOT NULL,
    created_by BLOB,
    kind       TEXT    NOT NULL,
    title      BLOB    NOT NULL,
    models     TEXT    NOT NULL,
    settings   BLOB    NOT NULL,
    revision   INTEGER NOT NULL CHECK (revision > 0),
    turns      INTEGER NOT NULL CHECK (turns >= 0),
    bytes      INTEGER NOT NULL CHECK (bytes >= 0),
    saved      BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT;

CREATE INDEX chat_updated ON chat (account_id, updated_at, id);

-- bytes is the size of the body before its encryption. request_ids is a sequence of ids of 16 bytes.
CREATE TABLE chat_turn (
    account_id  BLOB    NOT NULL,
    chat_id     BLOB    NOT NULL,
    ordinal     INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    bytes       INTEGER NOT NULL CHECK (bytes >= 0),
    request_ids BLOB    NOT NULL,
    PRIMARY KEY (account_id, chat_id, ordinal)
) STRICT;
