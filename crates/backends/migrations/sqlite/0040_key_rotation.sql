-- Keys that members create in the console, and their rotation. created_by may name a removed member.

ALTER TABLE api_key ADD COLUMN created_by BLOB;
ALTER TABLE api_key ADD COLUMN replaced_by BLOB;
