-- The chain of each account's transfers (storage/src/chain.rs): prev_hash and hash are filled from here on. The row of
-- kind 'credits' has the newest link, and how many transfers were made before there was a chain.

ALTER TABLE transfer ADD COLUMN sequence INTEGER;

ALTER TABLE ledger_account ADD COLUMN chain_sequence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger_account ADD COLUMN chain_previous BLOB;
ALTER TABLE ledger_account ADD COLUMN chain_hash BLOB;
ALTER TABLE ledger_account ADD COLUMN unchained INTEGER NOT NULL DEFAULT 0;

UPDATE ledger_account SET unchained = (SELECT count(*) FROM transfer
    WHERE transfer.account_id = ledger_account.account_id)
    WHERE kind = 'credits';
