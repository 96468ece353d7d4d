-- Saved chats of the playground. title, settings and body are encrypted.

-- created_by may name a removed member. saved is the digest of the last save.
CREATE TABLE chat (
    account_id BYTEA  NOT NULL REFERENCES account (id),
    id         BYTEA  NOT NULL,
    created_by BYTEA,
    kind       TEXT   NOT NULL,
    title      BYTEA  NOT NULL,
    models     TEXT   NOT NULL,
    settings   BYTEA  NOT NULL,
    revision   BIGINT NOT NULL CHECK (revision > 0),
    turns      BIGINT NOT NULL CHECK (turns >= 0),
    bytes      BIGINT NOT NULL CHECK (bytes >= 0),
    saved      BYTEA  NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, id)
);

CREATE INDEX chat_updated ON chat (account_id, updated_at, id);

-- bytes is the size of the body before its encryption. request_ids is a sequence of ids of 16 bytes.
CREATE TABLE chat_turn (
    account_id  BYTEA  NOT NULL,
    chat_id     BYTEA  NOT NULL,
    ordinal     BIGINT NOT NULL,
    body        BYTEA  NOT NULL,
    bytes       BIGINT NOT NULL CHECK (bytes >= 0),
    request_ids BYTEA  NOT NULL,
    PRIMARY KEY (account_id, chat_id, ordinal)
);
