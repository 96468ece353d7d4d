-- What an account may keep as files, and what its unfinished batches may consume; none where the default applies.
ALTER TABLE account ADD COLUMN files BIGINT;
ALTER TABLE account ADD COLUMN files_gib BIGINT;
-- Its bits without a sign, as those of tpm.
ALTER TABLE account ADD COLUMN batch_tokens BIGINT;
