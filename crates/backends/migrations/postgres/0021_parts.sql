-- What each model did of a call that several worked on: lines of its usage row, each priced by its own model's prices. They are
-- written with the end of the call's job, which is before its usage row is.

CREATE TABLE usage_part (
    account_id     BYTEA  NOT NULL,
    id             BYTEA  NOT NULL,
    number         BIGINT NOT NULL CHECK (number >= 0),
    name           TEXT   NOT NULL,
    model          TEXT   NOT NULL,
    provider       TEXT   NOT NULL,
    price_version  BIGINT NOT NULL,
    cost           BIGINT NOT NULL CHECK (cost >= 0),
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
    PRIMARY KEY (account_id, id, number)
);

CREATE TRIGGER usage_part_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON usage_part
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
