-- People who sign in to the console: their passwords, sessions, sign-in links and failed sign-ins.

-- email is lower case; none until the first owner of an account has entered it.
CREATE TABLE person (
    id         BLOB    NOT NULL PRIMARY KEY,
    email      TEXT,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX person_email ON person (email);

-- The id of a password is that of its person, so that a person has at most one. The data of a
-- password is a hash in PHC format.
CREATE TABLE credential (
    id        BLOB    NOT NULL PRIMARY KEY,
    person_id BLOB    NOT NULL REFERENCES person (id),
    kind      TEXT    NOT NULL,
    data      TEXT    NOT NULL,
    set_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX credential_person ON credential (person_id, kind);

-- A session belongs to a person or to an administrator.
CREATE TABLE session (
    id            BLOB    NOT NULL PRIMARY KEY,
    digest        BLOB    NOT NULL,
    digest_prefix BLOB    NOT NULL,
    person_id     BLOB    REFERENCES person (id),
    admin_id      BLOB    REFERENCES admin (id),
    created_at    INTEGER NOT NULL,
    last_seen_at  INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    proved_at     INTEGER NOT NULL,
    client        TEXT    NOT NULL,
    address       TEXT    NOT NULL,
    CHECK ((person_id IS NULL) <> (admin_id IS NULL))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX session_digest_prefix ON session (digest_prefix);
CREATE INDEX session_person ON session (person_id) WHERE person_id IS NOT NULL;
CREATE INDEX session_admin ON session (admin_id) WHERE admin_id IS NOT NULL;
CREATE INDEX session_expiry ON session (expires_at);
CREATE INDEX session_use ON session (last_seen_at);

-- A link signs in a member, the owner of an account, or an administrator. member_id is not a foreign
-- key: during an update, nodes of the previous version remove members without their links.
CREATE TABLE sign_in_link (
    id            BLOB    NOT NULL PRIMARY KEY,
    digest        BLOB    NOT NULL,
    digest_prefix BLOB    NOT NULL,
    purpose       TEXT    NOT NULL,
    member_id     BLOB,
    account_id    BLOB    REFERENCES account (id),
    admin_id      BLOB    REFERENCES admin (id),
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    CHECK ((member_id IS NOT NULL) + (account_id IS NOT NULL) + (admin_id IS NOT NULL) = 1)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX sign_in_link_digest_prefix ON sign_in_link (digest_prefix);
CREATE INDEX sign_in_link_member ON sign_in_link (member_id) WHERE member_id IS NOT NULL;
CREATE INDEX sign_in_link_account ON sign_in_link (account_id) WHERE account_id IS NOT NULL;
CREATE INDEX sign_in_link_admin ON sign_in_link (admin_id) WHERE admin_id IS NOT NULL;
CREATE INDEX sign_in_link_expiry ON sign_in_link (purpose, expires_at);

-- Failed sign-ins of an e-mail address or device in a period, which began with the first of them.
CREATE TABLE sign_in_failure (
    digest   BLOB    NOT NULL PRIMARY KEY,
    failures INTEGER NOT NULL,
    began_at INTEGER NOT NULL,
    ends_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sign_in_failure_end ON sign_in_failure (ends_at);

ALTER TABLE member ADD COLUMN person_id BLOB REFERENCES person (id);
CREATE UNIQUE INDEX member_person ON member (account_id, person_id) WHERE person_id IS NOT NULL;
CREATE INDEX member_of_person ON member (person_id) WHERE person_id IS NOT NULL;

-- The log keeps the ids of removed members.
ALTER TABLE audit_log ADD COLUMN member_id BLOB;
