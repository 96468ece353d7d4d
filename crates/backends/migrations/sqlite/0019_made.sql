-- What was made and is no token: pictures in millionths, film and sound in microseconds, characters.

ALTER TABLE usage_row ADD COLUMN image INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN video INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN audio INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN characters INTEGER NOT NULL DEFAULT 0;
