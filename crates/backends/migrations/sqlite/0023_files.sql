-- What accounts have uploaded, or can download; the bytes are elsewhere. A row goes when its bytes are gone.

CREATE TABLE file (
    account_id BLOB    NOT NULL REFERENCES account (id),
    id         BLOB    NOT NULL,
    object     BLOB    NOT NULL,
    sha256     BLOB    NOT NULL,
    bytes      INTEGER NOT NULL CHECK (bytes >= 0),
    filename   TEXT    NOT NULL,
    media_type TEXT    NOT NULL,
    purpose    TEXT    NOT NULL,
    lines      INTEGER CHECK (lines >= 0),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    deleted_at INTEGER,
    PRIMARY KEY (account_id, id)
) STRICT;

CREATE INDEX file_expired ON file (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX file_deleted ON file (deleted_at) WHERE deleted_at IS NOT NULL;
