-- A hold gives back to credits, while its job goes on, what that cannot cost any more. Of a batch this follows from its lines: each
-- says how much of the hold was for it.

ALTER TABLE hold ADD COLUMN returned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hold ADD COLUMN times_returned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE batch_line ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
