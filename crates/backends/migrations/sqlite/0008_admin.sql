-- Who may use the admin API, what was changed by whom, who belongs to an account, and which prices were in force when.

CREATE TABLE admin (
    id            BLOB    NOT NULL PRIMARY KEY,
    name          TEXT    NOT NULL,
    role          TEXT    NOT NULL,
    digest        BLOB    NOT NULL,
    digest_prefix BLOB    NOT NULL,
    last4         TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    revoked_at    INTEGER
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX admin_digest_prefix ON admin (digest_prefix);
CREATE UNIQUE INDEX admin_name ON admin (name) WHERE revoked_at IS NULL;

-- before and after are JSON objects. account_id is none where the change is not about one account.
CREATE TABLE audit_log (
    id         BLOB    NOT NULL PRIMARY KEY,
    at         INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    actor_id   BLOB,
    role       TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    account_id BLOB,
    object     TEXT    NOT NULL,
    before     TEXT,
    after      TEXT,
    request_id BLOB,
    outcome    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX audit_log_account ON audit_log (account_id, id);
CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

CREATE TABLE member (
    id         BLOB    NOT NULL PRIMARY KEY,
    account_id BLOB    NOT NULL REFERENCES account (id),
    email      TEXT    NOT NULL,
    role       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX member_email ON member (account_id, email);

-- From `at` on, the model's prices are those of the version; the newest row of a model is in force.
CREATE TABLE price_change (
    id      BLOB    NOT NULL PRIMARY KEY,
    model   TEXT    NOT NULL,
    version INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX price_change_model ON price_change (model, id);
CREATE TRIGGER price_change_no_update BEFORE UPDATE ON price_change
BEGIN SELECT RAISE(ABORT, 'price changes are append-only'); END;
CREATE TRIGGER price_change_no_delete BEFORE DELETE ON price_change
BEGIN SELECT RAISE(ABORT, 'price changes are append-only'); END;

-- How many of each an account may have; none where the default applies.
ALTER TABLE account ADD COLUMN keys INTEGER;
ALTER TABLE account ADD COLUMN gpus INTEGER;
ALTER TABLE account ADD COLUMN agents INTEGER;
ALTER TABLE account ADD COLUMN chats INTEGER;
