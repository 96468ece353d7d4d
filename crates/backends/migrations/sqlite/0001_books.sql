-- Tenants, keys, books, usage and prices. Both engines have the same tables and columns, journal_mark apart.
-- Ids are 16 bytes, amounts whole nano-credits, instants microseconds since the epoch (UTC), and a price version is
-- the same 64 bits read as a signed number.

CREATE TABLE account (
    id         BLOB    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    rpm        INTEGER,
    tpm        INTEGER,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_key (
    id            BLOB    NOT NULL PRIMARY KEY,
    account_id    BLOB    NOT NULL REFERENCES account (id),
    name          TEXT    NOT NULL,
    digest        BLOB    NOT NULL,
    digest_prefix BLOB    NOT NULL,
    last4         TEXT    NOT NULL,
    mode          TEXT    NOT NULL,
    state         TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER,
    revoked_at    INTEGER
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX api_key_digest_prefix ON api_key (digest_prefix);
CREATE INDEX api_key_account ON api_key (account_id, id);

CREATE TABLE ledger_account (
    account_id BLOB    NOT NULL REFERENCES account (id),
    kind       TEXT    NOT NULL,
    balance    INTEGER NOT NULL,
    PRIMARY KEY (account_id, kind),
    CHECK (balance >= 0 OR kind NOT IN ('credits', 'hold'))
) STRICT, WITHOUT ROWID;

-- entry_id is the id of the hold or of the grant; subject says which.
CREATE TABLE transfer (
    account_id    BLOB    NOT NULL,
    entry_id      BLOB    NOT NULL,
    leg           INTEGER NOT NULL CHECK (leg BETWEEN 0 AND 4),
    subject       TEXT    NOT NULL,
    debit         TEXT    NOT NULL,
    credit        TEXT    NOT NULL,
    amount        INTEGER NOT NULL CHECK (amount > 0),
    created_at    INTEGER NOT NULL,
    price_version INTEGER,
    prev_hash     BLOB,
    hash          BLOB,
    PRIMARY KEY (account_id, entry_id, leg)
) STRICT, WITHOUT ROWID;

-- A grant happens once, whichever account it names.
CREATE UNIQUE INDEX transfer_grant ON transfer (entry_id) WHERE leg = 0;

CREATE TRIGGER transfer_no_update BEFORE UPDATE ON transfer
BEGIN SELECT RAISE(ABORT, 'transfers are append-only'); END;
CREATE TRIGGER transfer_no_delete BEFORE DELETE ON transfer
BEGIN SELECT RAISE(ABORT, 'transfers are append-only'); END;

-- Holds that are open. The row goes when the hold is resolved; its transfers and its usage row are the record.
CREATE TABLE hold (
    account_id    BLOB    NOT NULL,
    id            BLOB    NOT NULL,
    key_id        BLOB,
    request_id    BLOB    NOT NULL,
    amount        INTEGER NOT NULL CHECK (amount >= 0),
    price_version INTEGER NOT NULL,
    model         TEXT    NOT NULL,
    endpoint      TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_row (
    account_id    BLOB    NOT NULL,
    id            BLOB    NOT NULL,
    key_id        BLOB,
    request_id    BLOB    NOT NULL,
    endpoint      TEXT    NOT NULL,
    model         TEXT    NOT NULL,
    provider      TEXT    NOT NULL,
    price_version INTEGER NOT NULL,
    held          INTEGER NOT NULL,
    charge        INTEGER NOT NULL,
    overrun       INTEGER NOT NULL,
    input         INTEGER NOT NULL,
    cache_read    INTEGER NOT NULL,
    cache_write   INTEGER NOT NULL,
    input_audio   INTEGER NOT NULL,
    output        INTEGER NOT NULL,
    reasoning     INTEGER NOT NULL,
    output_audio  INTEGER NOT NULL,
    outcome       TEXT    NOT NULL,
    estimated     INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    first_at      INTEGER,
    ended_at      INTEGER NOT NULL,
    PRIMARY KEY (account_id, id),
    CHECK (charge BETWEEN 0 AND held AND overrun >= 0)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER usage_row_no_update BEFORE UPDATE ON usage_row
BEGIN SELECT RAISE(ABORT, 'usage rows are append-only'); END;
CREATE TRIGGER usage_row_no_delete BEFORE DELETE ON usage_row
BEGIN SELECT RAISE(ABORT, 'usage rows are append-only'); END;

CREATE TABLE price_version (
    version    INTEGER NOT NULL PRIMARY KEY,
    model      TEXT    NOT NULL,
    prices     TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER price_version_no_update BEFORE UPDATE ON price_version
BEGIN SELECT RAISE(ABORT, 'price versions are append-only'); END;
CREATE TRIGGER price_version_no_delete BEFORE DELETE ON price_version
BEGIN SELECT RAISE(ABORT, 'price versions are append-only'); END;

-- SQLite only. Which journal belongs to this database, the last of its records that was taken over, and whether the
-- engine was closed in order, so that no call was running when the process ended.
CREATE TABLE journal_mark (
    id           INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    installation BLOB    NOT NULL,
    committed    INTEGER NOT NULL,
    clean        INTEGER NOT NULL
) STRICT;

INSERT INTO journal_mark (id, installation, committed, clean) VALUES (1, randomblob(16), 0, 1);
