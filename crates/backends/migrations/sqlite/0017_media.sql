-- Images, videos and recordings that were made for accounts; their bytes are elsewhere. A row stays when they are gone.

CREATE TABLE media (
    account_id BLOB    NOT NULL REFERENCES account (id),
    id         BLOB    NOT NULL,
    object     BLOB    NOT NULL,
    sha256     BLOB    NOT NULL,
    bytes      INTEGER NOT NULL CHECK (bytes >= 0),
    mime_type  TEXT    NOT NULL,
    width      INTEGER,
    height     INTEGER,
    duration   INTEGER,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    source_id  BLOB,
    deleted_at INTEGER,
    PRIMARY KEY (account_id, id)
) STRICT;

-- A signed address names the object alone.
CREATE INDEX media_id ON media (id);
CREATE INDEX media_expired ON media (expires_at) WHERE deleted_at IS NULL;
