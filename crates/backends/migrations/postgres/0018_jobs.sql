-- Jobs: work that goes on after its request was answered. What one is asked for and what comes of it is sealed.

CREATE TABLE job (
    account_id       BYTEA  NOT NULL REFERENCES account (id),
    id               BYTEA  NOT NULL,
    key_id           BYTEA,
    request_id       BYTEA  NOT NULL,
    hold_id          BYTEA  NOT NULL,
    held             BIGINT NOT NULL CHECK (held >= 0),
    price_version    BIGINT NOT NULL,
    kind             TEXT   NOT NULL,
    model            TEXT   NOT NULL,
    status           TEXT   NOT NULL,
    phase            TEXT   NOT NULL,
    progress         BIGINT CHECK (progress BETWEEN 0 AND 100),
    body             BYTEA  NOT NULL,
    result           BYTEA,
    error_code       TEXT,
    error_message    TEXT,
    error_param      TEXT,
    start_by         BIGINT,
    due_at           BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    started_at       BIGINT,
    completed_at     BIGINT,
    cancel_requested BIGINT NOT NULL,
    -- Who carries it out; kept when it has ended. Each lease has the next epoch.
    worker           BYTEA,
    epoch            BIGINT NOT NULL,
    lease_until      BIGINT,
    deaths           BIGINT NOT NULL,
    last_event       BIGINT NOT NULL,
    -- How its hold is resolved.
    charge           BIGINT CHECK (charge >= 0),
    overrun          BIGINT CHECK (overrun >= 0),
    usage            TEXT   NOT NULL,
    outcome          TEXT,
    estimated        BIGINT,
    provider         TEXT,
    first_at         BIGINT,
    PRIMARY KEY (account_id, id),
    CHECK ((charge IS NULL) = (status IN ('queued', 'in_progress')))
);

CREATE INDEX job_hold ON job (account_id, hold_id);
CREATE INDEX job_open ON job (due_at) WHERE status IN ('queued', 'in_progress');
CREATE INDEX job_worker ON job (worker) WHERE lease_until IS NOT NULL;
CREATE INDEX job_start_by ON job (start_by) WHERE status = 'queued' AND start_by IS NOT NULL;
CREATE INDEX job_completed_at ON job (completed_at) WHERE completed_at IS NOT NULL;

-- What providers were asked for. A step that was intended and has no handle may have been carried out.
CREATE TABLE job_step (
    account_id BYTEA  NOT NULL,
    job_id     BYTEA  NOT NULL,
    number     BIGINT NOT NULL,
    state      TEXT   NOT NULL,
    attempt    BIGINT NOT NULL,
    handle     BYTEA  NOT NULL,
    outcome    BYTEA  NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, job_id, number),
    FOREIGN KEY (account_id, job_id) REFERENCES job (account_id, id)
);

CREATE TABLE job_event (
    account_id BYTEA  NOT NULL,
    job_id     BYTEA  NOT NULL,
    sequence   BIGINT NOT NULL,
    kind       TEXT   NOT NULL,
    body       BYTEA  NOT NULL,
    at         BIGINT NOT NULL,
    PRIMARY KEY (account_id, job_id, sequence),
    FOREIGN KEY (account_id, job_id) REFERENCES job (account_id, id)
);
