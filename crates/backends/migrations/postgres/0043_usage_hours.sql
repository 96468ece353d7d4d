-- Sums of usage rows by the hour of their creation. hour is the start of the hour in microseconds; key_id and
-- member_id are empty for rows without one.
CREATE TABLE usage_hour (
    account_id     BYTEA  NOT NULL,
    hour           BIGINT NOT NULL,
    model          TEXT   NOT NULL,
    key_id         BYTEA  NOT NULL,
    member_id      BYTEA  NOT NULL,
    endpoint       TEXT   NOT NULL,
    requests       BIGINT NOT NULL,
    charge         BIGINT NOT NULL,
    input          BIGINT NOT NULL,
    cache_read     BIGINT NOT NULL,
    cache_write    BIGINT NOT NULL,
    input_audio    BIGINT NOT NULL,
    output         BIGINT NOT NULL,
    reasoning      BIGINT NOT NULL,
    output_audio   BIGINT NOT NULL,
    cache_write_1h BIGINT NOT NULL,
    image          BIGINT NOT NULL,
    video          BIGINT NOT NULL,
    audio          BIGINT NOT NULL,
    characters     BIGINT NOT NULL,
    PRIMARY KEY (account_id, hour, model, key_id, member_id, endpoint)
);

-- The start of the first hour that is not summed. Rows of earlier hours are complete.
CREATE TABLE usage_hour_mark (
    account_id BYTEA  NOT NULL PRIMARY KEY REFERENCES account (id),
    until      BIGINT NOT NULL
);
