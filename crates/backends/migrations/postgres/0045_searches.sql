-- Queries to search backends, in millionths of a query.

ALTER TABLE usage_row ADD COLUMN searches BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_part ADD COLUMN searches BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN searches BIGINT NOT NULL DEFAULT 0;

-- The units other than tokens are recorded once, in the statement that inserts the row.
DROP TRIGGER usage_row_made_once ON usage_row;
CREATE TRIGGER usage_row_made_once BEFORE UPDATE OF image, video, audio, characters, searches ON usage_row
    FOR EACH ROW WHEN ((OLD.image, OLD.video, OLD.audio, OLD.characters, OLD.searches) <> (0, 0, 0, 0, 0))
    EXECUTE FUNCTION refuse_change();

-- The function without searches remains for nodes of the version before this migration.
CREATE FUNCTION note_made(
    p_account BYTEA, p_ids BYTEA[], p_image BIGINT[], p_video BIGINT[], p_audio BIGINT[], p_character BIGINT[],
    p_search BIGINT[]
) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE usage_row SET image = made.image, video = made.video, audio = made.audio, characters = made.characters,
        searches = made.searches
    FROM unnest(p_ids, p_image, p_video, p_audio, p_character, p_search)
        AS made (id, image, video, audio, characters, searches)
    WHERE usage_row.account_id = p_account AND usage_row.id = made.id
        AND (made.image, made.video, made.audio, made.characters, made.searches) <> (0, 0, 0, 0, 0);
END $$;
