-- Session of the console in which a member created a client secret. The session may have ended.
ALTER TABLE client_secret ADD COLUMN console_session_id BLOB;
