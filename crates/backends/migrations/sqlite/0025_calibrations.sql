-- Profiles by which accounts have probabilities of typed decisions corrected.

CREATE TABLE calibration (
    account_id BLOB    NOT NULL REFERENCES account (id),
    id         BLOB    NOT NULL,
    model      TEXT    NOT NULL,
    version    INTEGER NOT NULL CHECK (version > 0),
    name       TEXT,
    profile    TEXT    NOT NULL,
    examples   INTEGER NOT NULL CHECK (examples >= 0),
    summary    TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT;

CREATE UNIQUE INDEX calibration_version ON calibration (account_id, model, version);

-- How many versions a model of an account has had, deleted ones included, and which was chosen as its default.
CREATE TABLE calibration_model (
    account_id BLOB    NOT NULL REFERENCES account (id),
    model      TEXT    NOT NULL,
    versions   INTEGER NOT NULL,
    chosen     BLOB,
    PRIMARY KEY (account_id, model)
) STRICT;
