-- Who may use the admin API, what was changed by whom, who belongs to an account, and which prices were in force when.

CREATE TABLE admin (
    id            BYTEA  NOT NULL PRIMARY KEY,
    name          TEXT   NOT NULL,
    role          TEXT   NOT NULL,
    digest        BYTEA  NOT NULL,
    digest_prefix BYTEA  NOT NULL,
    last4         TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    revoked_at    BIGINT
);

CREATE UNIQUE INDEX admin_digest_prefix ON admin (digest_prefix);
CREATE UNIQUE INDEX admin_name ON admin (name) WHERE revoked_at IS NULL;

-- before and after are JSON objects. account_id is none where the change is not about one account.
CREATE TABLE audit_log (
    id         BYTEA  NOT NULL PRIMARY KEY,
    at         BIGINT NOT NULL,
    actor      TEXT   NOT NULL,
    actor_id   BYTEA,
    role       TEXT   NOT NULL,
    action     TEXT   NOT NULL,
    account_id BYTEA,
    object     TEXT   NOT NULL,
    before     TEXT,
    after      TEXT,
    request_id BYTEA,
    outcome    TEXT   NOT NULL
);

CREATE INDEX audit_log_account ON audit_log (account_id, id);
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE member (
    id         BYTEA  NOT NULL PRIMARY KEY,
    account_id BYTEA  NOT NULL REFERENCES account (id),
    email      TEXT   NOT NULL,
    role       TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX member_email ON member (account_id, email);

-- From `at` on, the model's prices are those of the version; the newest row of a model is in force.
CREATE TABLE price_change (
    id      BYTEA  NOT NULL PRIMARY KEY,
    model   TEXT   NOT NULL,
    version BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    actor   TEXT   NOT NULL
);

CREATE INDEX price_change_model ON price_change (model, id);
CREATE TRIGGER price_change_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON price_change
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- How many of each an account may have; none where the default applies.
ALTER TABLE account ADD COLUMN keys BIGINT;
ALTER TABLE account ADD COLUMN gpus BIGINT;
ALTER TABLE account ADD COLUMN agents BIGINT;
ALTER TABLE account ADD COLUMN chats BIGINT;
