-- What was made and is no token: pictures in millionths, film and sound in microseconds, characters.

ALTER TABLE usage_row ADD COLUMN image BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN video BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN audio BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN characters BIGINT NOT NULL DEFAULT 0;

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
