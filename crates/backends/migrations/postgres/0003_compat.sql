-- What becomes of parts of a request that a model cannot use: 'strict' or 'lenient'.

ALTER TABLE api_key ADD COLUMN compat TEXT NOT NULL DEFAULT 'strict';
