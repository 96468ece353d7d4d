-- Images, videos and recordings that were made for accounts; their bytes are elsewhere. A row stays when they are gone.

CREATE TABLE media (
    account_id BYTEA  NOT NULL REFERENCES account (id),
    id         BYTEA  NOT NULL,
    object     BYTEA  NOT NULL,
    sha256     BYTEA  NOT NULL,
    bytes      BIGINT NOT NULL CHECK (bytes >= 0),
    mime_type  TEXT   NOT NULL,
    width      BIGINT,
    height     BIGINT,
    duration   BIGINT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    source_id  BYTEA,
    deleted_at BIGINT,
    PRIMARY KEY (account_id, id)
);

-- A signed address names the object alone.
CREATE INDEX media_id ON media (id);
CREATE INDEX media_expired ON media (expires_at) WHERE deleted_at IS NULL;
