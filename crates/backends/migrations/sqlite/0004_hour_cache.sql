-- Input that a provider wrote into its cache for an hour: a class with a price of its own.

ALTER TABLE usage_row ADD COLUMN cache_write_1h INTEGER NOT NULL DEFAULT 0;
