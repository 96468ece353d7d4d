-- Profiles by which accounts have probabilities of typed decisions corrected.

CREATE TABLE calibration (
    account_id BYTEA  NOT NULL REFERENCES account (id),
    id         BYTEA  NOT NULL,
    model      TEXT   NOT NULL,
    version    BIGINT NOT NULL CHECK (version > 0),
    name       TEXT,
    profile    TEXT   NOT NULL,
    examples   BIGINT NOT NULL CHECK (examples >= 0),
    summary    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, id)
);

CREATE UNIQUE INDEX calibration_version ON calibration (account_id, model, version);

-- How many versions a model of an account has had, deleted ones included, and which was chosen as its default.
CREATE TABLE calibration_model (
    account_id BYTEA  NOT NULL REFERENCES account (id),
    model      TEXT   NOT NULL,
    versions   BIGINT NOT NULL,
    chosen     BYTEA,
    PRIMARY KEY (account_id, model)
);
