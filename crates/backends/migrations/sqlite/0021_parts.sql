-- What each model did of a call that several worked on: lines of its usage row, each priced by its own model's prices. They are
-- written with the end of the call's job, which is before its usage row is.

CREATE TABLE usage_part (
    account_id     BLOB    NOT NULL,
    id             BLOB    NOT NULL,
    number         INTEGER NOT NULL CHECK (number >= 0),
    name           TEXT    NOT NULL,
    model          TEXT    NOT NULL,
    provider       TEXT    NOT NULL,
    price_version  INTEGER NOT NULL,
    cost           INTEGER NOT NULL CHECK (cost >= 0),
    input          INTEGER NOT NULL,
    cache_read     INTEGER NOT NULL,
    cache_write    INTEGER NOT NULL,
    input_audio    INTEGER NOT NULL,
    output         INTEGER NOT NULL,
    reasoning      INTEGER NOT NULL,
    output_audio   INTEGER NOT NULL,
    cache_write_1h INTEGER NOT NULL,
    image          INTEGER NOT NULL,
    video          INTEGER NOT NULL,
    audio          INTEGER NOT NULL,
    characters     INTEGER NOT NULL,
    PRIMARY KEY (account_id, id, number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER usage_part_no_update BEFORE UPDATE ON usage_part
BEGIN SELECT RAISE(ABORT, 'parts of usage rows are append-only'); END;
CREATE TRIGGER usage_part_no_delete BEFORE DELETE ON usage_part
BEGIN SELECT RAISE(ABORT, 'parts of usage rows are append-only'); END;
