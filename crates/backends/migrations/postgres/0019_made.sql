-- What was made and is no token: pictures in millionths, film and sound in microseconds, characters.

ALTER TABLE usage_row ADD COLUMN image BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN video BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN audio BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN characters BIGINT NOT NULL DEFAULT 0;

-- Rows are append-only but for this: what a call has made is noted behind the insertion of its row, once and in the same
-- statement. It is not changed afterwards, and what it was charged shows whether it is true.
DROP TRIGGER usage_row_append_only ON usage_row;
CREATE TRIGGER usage_row_append_only BEFORE DELETE OR TRUNCATE OR UPDATE OF account_id, id, key_id, request_id, endpoint,
    model, provider, price_version, held, charge, overrun, input, cache_read, cache_write, input_audio, output, reasoning,
    output_audio, cache_write_1h, outcome, estimated, created_at, first_at, ended_at, included, plan_name, window_id
    ON usage_row FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER usage_row_made_once BEFORE UPDATE OF image, video, audio, characters ON usage_row
    FOR EACH ROW WHEN ((OLD.image, OLD.video, OLD.audio, OLD.characters) <> (0, 0, 0, 0))
    EXECUTE FUNCTION refuse_change();

-- Notes what calls have made whose rows are there. Most calls make nothing: their statements do not ask for it.
CREATE FUNCTION note_made(
    p_account BYTEA, p_ids BYTEA[], p_image BIGINT[], p_video BIGINT[], p_audio BIGINT[], p_character BIGINT[]
) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE usage_row SET image = made.image, video = made.video, audio = made.audio, characters = made.characters
    FROM unnest(p_ids, p_image, p_video, p_audio, p_character) AS made (id, image, video, audio, characters)
    WHERE usage_row.account_id = p_account AND usage_row.id = made.id
        AND (made.image, made.video, made.audio, made.characters) <> (0, 0, 0, 0);
END $$;
