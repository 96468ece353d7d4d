-- Leases are for several nodes on one PostgreSQL: here the process has all balances in its memory. The books have the same
-- accounts on both engines.

INSERT INTO ledger_account (account_id, kind, balance)
    SELECT account.id, kinds.column1, 0 FROM account CROSS JOIN (VALUES ('lease'), ('expense:crash_loss')) AS kinds;
