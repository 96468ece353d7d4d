-- What accounts have uploaded, or can download; the bytes are elsewhere. A row goes when its bytes are gone.

CREATE TABLE file (
    account_id BYTEA  NOT NULL REFERENCES account (id),
    id         BYTEA  NOT NULL,
    object     BYTEA  NOT NULL,
    sha256     BYTEA  NOT NULL,
    bytes      BIGINT NOT NULL CHECK (bytes >= 0),
    filename   TEXT   NOT NULL,
    media_type TEXT   NOT NULL,
    purpose    TEXT   NOT NULL,
    lines      BIGINT CHECK (lines >= 0),
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    deleted_at BIGINT,
    PRIMARY KEY (account_id, id)
);

CREATE INDEX file_expired ON file (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX file_deleted ON file (deleted_at) WHERE deleted_at IS NOT NULL;
