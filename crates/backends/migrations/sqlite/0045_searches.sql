-- Queries to search backends, in millionths of a query.

ALTER TABLE usage_row ADD COLUMN searches INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_part ADD COLUMN searches INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_hour ADD COLUMN searches INTEGER NOT NULL DEFAULT 0;
