-- Lists of keys show when each key was last used: the last entry of its range in this index.

CREATE INDEX usage_row_key ON usage_row (key_id, created_at);
