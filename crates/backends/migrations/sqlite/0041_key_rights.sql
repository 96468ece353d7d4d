-- Rights of API keys: JSON arrays of strings, or null for all models or all scopes.

ALTER TABLE api_key ADD COLUMN models TEXT;
ALTER TABLE api_key ADD COLUMN scopes TEXT;
