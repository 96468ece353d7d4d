-- Jobs: work that goes on after its request was answered. What one is asked for and what comes of it is sealed.

CREATE TABLE job (
    account_id       BLOB    NOT NULL REFERENCES account (id),
    id               BLOB    NOT NULL,
    key_id           BLOB,
    request_id       BLOB    NOT NULL,
    hold_id          BLOB    NOT NULL,
    held             INTEGER NOT NULL CHECK (held >= 0),
    price_version    INTEGER NOT NULL,
    kind             TEXT    NOT NULL,
    model            TEXT    NOT NULL,
    status           TEXT    NOT NULL,
    phase            TEXT    NOT NULL,
    progress         INTEGER CHECK (progress BETWEEN 0 AND 100),
    body             BLOB    NOT NULL,
    result           BLOB,
    error_code       TEXT,
    error_message    TEXT,
    error_param      TEXT,
    start_by         INTEGER,
    due_at           INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    started_at       INTEGER,
    completed_at     INTEGER,
    cancel_requested INTEGER NOT NULL,
    -- Who carries it out; kept when it has ended. Each lease has the next epoch.
    worker           BLOB,
    epoch            INTEGER NOT NULL,
    lease_until      INTEGER,
    deaths           INTEGER NOT NULL,
    last_event       INTEGER NOT NULL,
    -- How its hold is resolved.
    charge           INTEGER CHECK (charge >= 0),
    overrun          INTEGER CHECK (overrun >= 0),
    usage            TEXT    NOT NULL,
    outcome          TEXT,
    estimated        INTEGER,
    provider         TEXT,
    first_at         INTEGER,
    PRIMARY KEY (account_id, id),
    CHECK ((charge IS NULL) = (status IN ('queued', 'in_progress')))
) STRICT;

CREATE INDEX job_hold ON job (account_id, hold_id);
CREATE INDEX job_open ON job (due_at) WHERE status IN ('queued', 'in_progress');
CREATE INDEX job_worker ON job (worker) WHERE lease_until IS NOT NULL;
CREATE INDEX job_start_by ON job (start_by) WHERE status = 'queued' AND start_by IS NOT NULL;
CREATE INDEX job_completed_at ON job (completed_at) WHERE completed_at IS NOT NULL;

-- What providers were asked for. A step that was intended and has no handle may have been carried out.
CREATE TABLE job_step (
    account_id BLOB    NOT NULL,
    job_id     BLOB    NOT NULL,
    number     INTEGER NOT NULL,
    state      TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    handle     BLOB    NOT NULL,
    outcome    BLOB    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, job_id, number),
    FOREIGN KEY (account_id, job_id) REFERENCES job (account_id, id)
) STRICT;

CREATE TABLE job_event (
    account_id BLOB    NOT NULL,
    job_id     BLOB    NOT NULL,
    sequence   INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    body       BLOB    NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (account_id, job_id, sequence),
    FOREIGN KEY (account_id, job_id) REFERENCES job (account_id, id)
) STRICT;
