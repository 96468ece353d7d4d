-- Image tokens of the input, and audio tokens that the provider read from its cache.

ALTER TABLE usage_row ADD COLUMN input_image INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_part ADD COLUMN input_image INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN input_image INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN cache_read_audio INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_part ADD COLUMN cache_read_audio INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN cache_read_audio INTEGER NOT NULL DEFAULT 0;
