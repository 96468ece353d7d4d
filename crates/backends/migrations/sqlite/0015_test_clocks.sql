-- How far the account's test clock is ahead, in microseconds; null for an account that has none.

ALTER TABLE account ADD COLUMN test_clock INTEGER CHECK (test_clock >= 0);
CREATE INDEX account_test_clock ON account (id) WHERE test_clock IS NOT NULL;
