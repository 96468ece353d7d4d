-- Lines of batches, each of which is a part of the charge of its batch's hold. A batch is a job; lines stay when it is forgotten, without
-- what they made.

CREATE TABLE batch_line (
    account_id    BYTEA  NOT NULL REFERENCES account (id),
    batch_id      BYTEA  NOT NULL,
    number        BIGINT NOT NULL CHECK (number >= 0),
    hold_id       BYTEA  NOT NULL,
    state         TEXT   NOT NULL,
    content       BYTEA  NOT NULL,
    price_version BIGINT NOT NULL,
    usage         TEXT   NOT NULL,
    charge        BIGINT NOT NULL CHECK (charge >= 0),
    overrun       BIGINT NOT NULL CHECK (overrun >= 0),
    updated_at    BIGINT NOT NULL,
    PRIMARY KEY (account_id, batch_id, number)
);
