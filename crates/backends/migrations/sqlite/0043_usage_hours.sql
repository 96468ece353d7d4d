-- Sums of usage rows by the hour of their creation. hour is the start of the hour in microseconds; key_id and
-- member_id are empty for rows without one.
CREATE TABLE usage_hour (
    account_id     BLOB    NOT NULL,
    hour           INTEGER NOT NULL,
    model          TEXT    NOT NULL,
    key_id         BLOB    NOT NULL,
    member_id      BLOB    NOT NULL,
    endpoint       TEXT    NOT NULL,
    requests       INTEGER NOT NULL,
    charge         INTEGER NOT NULL,
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
    PRIMARY KEY (account_id, hour, model, key_id, member_id, endpoint)
) STRICT, WITHOUT ROWID;

-- The start of the first hour that is not summed. Rows of earlier hours are complete.
CREATE TABLE usage_hour_mark (
    account_id BLOB    NOT NULL PRIMARY KEY REFERENCES account (id),
    until      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
