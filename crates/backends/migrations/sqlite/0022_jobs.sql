-- One process has this database to itself and knows what becomes of its jobs. On PostgreSQL, triggers tell the others.

-- Whether the pictures of a key's requests are waited for, unless the request says otherwise.
ALTER TABLE api_key ADD COLUMN sync INTEGER NOT NULL DEFAULT 0;
