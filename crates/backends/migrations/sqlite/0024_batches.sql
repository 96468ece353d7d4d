-- Lines of batches, each of which is a part of the charge of its batch's hold. A batch is a job; lines stay when it is forgotten, without
-- what they made.

CREATE TABLE batch_line (
    account_id    BLOB    NOT NULL REFERENCES account (id),
    batch_id      BLOB    NOT NULL,
    number        INTEGER NOT NULL CHECK (number >= 0),
    hold_id       BLOB    NOT NULL,
    state         TEXT    NOT NULL,
    content       BLOB    NOT NULL,
    price_version INTEGER NOT NULL,
    usage         TEXT    NOT NULL,
    charge        INTEGER NOT NULL CHECK (charge >= 0),
    overrun       INTEGER NOT NULL CHECK (overrun >= 0),
    updated_at    INTEGER NOT NULL,
    PRIMARY KEY (account_id, batch_id, number)
) STRICT;
