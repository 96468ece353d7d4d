-- Calls of members with a session: the member in place of the API key.

ALTER TABLE hold ADD COLUMN member_id BLOB;
ALTER TABLE job ADD COLUMN member_id BLOB;
ALTER TABLE usage_row ADD COLUMN member_id BLOB;
