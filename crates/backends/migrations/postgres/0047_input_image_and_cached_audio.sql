-- Image tokens of the input, and audio tokens that the provider read from its cache.

ALTER TABLE usage_row ADD COLUMN input_image BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_part ADD COLUMN input_image BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN input_image BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN cache_read_audio BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_part ADD COLUMN cache_read_audio BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN cache_read_audio BIGINT NOT NULL DEFAULT 0;

-- The units that note_made adds are recorded once, in the statement that inserts the row.
DROP TRIGGER usage_row_made_once ON usage_row;
CREATE TRIGGER usage_row_made_once
    BEFORE UPDATE OF image, video, audio, characters, searches, input_image, cache_read_audio ON usage_row
    FOR EACH ROW WHEN ((OLD.image, OLD.video, OLD.audio, OLD.characters, OLD.searches, OLD.input_image,
        OLD.cache_read_audio) <> (0, 0, 0, 0, 0, 0, 0))
    EXECUTE FUNCTION refuse_change();

-- The functions without these units remain for nodes of versions before this migration.
CREATE FUNCTION note_made(
    p_account BYTEA, p_ids BYTEA[], p_image BIGINT[], p_video BIGINT[], p_audio BIGINT[], p_character BIGINT[],
    p_search BIGINT[], p_input_image BIGINT[], p_cache_read_audio BIGINT[]
) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE usage_row SET image = made.image, video = made.video, audio = made.audio, characters = made.characters,
        searches = made.searches, input_image = made.input_image, cache_read_audio = made.cache_read_audio
    FROM unnest(p_ids, p_image, p_video, p_audio, p_character, p_search, p_input_image, p_cache_read_audio)
        AS made (id, image, video, audio, characters, searches, input_image, cache_read_audio)
    WHERE usage_row.account_id = p_account AND usage_row.id = made.id
        AND (made.image, made.video, made.audio, made.characters, made.searches, made.input_image,
            made.cache_read_audio) <> (0, 0, 0, 0, 0, 0, 0);
END $$;
