-- Lots: what is left of each grant, and refunds. Spending is assigned to lots later than it happens.

CREATE TABLE credit_lot (
    account_id BYTEA  NOT NULL REFERENCES account (id),
    id         BYTEA  NOT NULL,
    kind       TEXT   NOT NULL,
    amount     BIGINT NOT NULL CHECK (amount > 0),
    remaining  BIGINT NOT NULL CHECK (remaining >= 0),
    expired    BIGINT NOT NULL CHECK (expired >= 0),
    withdrawn  BIGINT NOT NULL CHECK (withdrawn >= 0),
    priority   BIGINT NOT NULL,
    expires_at BIGINT,
    note       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, id),
    CHECK (remaining + expired + withdrawn <= amount)
);

CREATE INDEX credit_lot_expiry ON credit_lot (expires_at) WHERE remaining > 0 AND expires_at IS NOT NULL;

-- What accounts have becomes what is left of their newest grants: the oldest were spent first. Calls wait meanwhile.
LOCK TABLE ledger_account IN EXCLUSIVE MODE;
INSERT INTO credit_lot
    SELECT account_id, entry_id, 'purchase', amount, GREATEST(0, LEAST(amount, funds - newer))::BIGINT, 0, 0, 100, NULL,
        '', created_at
    FROM (SELECT grants.account_id, entry_id, amount, created_at,
            sum(amount) OVER (PARTITION BY grants.account_id ORDER BY created_at DESC, entry_id DESC) - amount AS newer,
            credits.balance + COALESCE((SELECT sum(hold.amount - hold.allowance) FROM hold
                WHERE hold.account_id = grants.account_id), 0) AS funds
        FROM transfer AS grants
        JOIN ledger_account AS credits ON credits.account_id = grants.account_id AND credits.kind = 'credits'
        WHERE subject = 'grant') AS granted;

CREATE TABLE refund (
    id         BYTEA  NOT NULL PRIMARY KEY,
    account_id BYTEA  NOT NULL,
    hold_id    BYTEA  NOT NULL,
    credits    BIGINT NOT NULL CHECK (credits >= 0),
    allowance  BIGINT NOT NULL CHECK (allowance >= 0),
    reason     TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE INDEX refund_call ON refund (account_id, hold_id);
CREATE TRIGGER refund_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON refund
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

INSERT INTO ledger_account (account_id, kind, balance)
    SELECT account.id, kinds.kind, 0 FROM account CROSS JOIN
    (VALUES ('expense:goodwill'), ('revenue:refunds')) AS kinds (kind);

-- Old rows are known to be right.
ALTER TABLE transfer DROP CONSTRAINT transfer_subject_check;
ALTER TABLE transfer ADD CONSTRAINT transfer_subject_check
    CHECK (subject IN ('hold', 'grant', 'window', 'period', 'lot', 'refund')) NOT VALID;

-- Puts credits into an account as a lot of their own, once for each id. The caller has the account's lock.
CREATE FUNCTION grant_lot(
    p_account BYTEA, p_id BYTEA, p_amount BIGINT, p_at BIGINT,
    p_kind TEXT, p_priority BIGINT, p_expires_at BIGINT, p_note TEXT,
    OUT credits BIGINT, OUT held BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
    is_gift BOOLEAN := p_kind = 'promotion';
    granted NUMERIC;
BEGIN
    IF p_amount <= 0 THEN
        RAISE EXCEPTION 'the amount of a grant is not above zero' USING ERRCODE = 'TG409';
    END IF;
    SELECT balance INTO credits FROM ledger_account
    WHERE account_id = p_account AND kind = 'credits' FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the account does not exist' USING ERRCODE = 'TG404';
    END IF;
    SELECT balance INTO held FROM ledger_account WHERE account_id = p_account AND kind = 'hold';
    IF EXISTS (SELECT FROM transfer WHERE account_id = p_account AND entry_id = p_id AND subject = 'grant') THEN
        RETURN;
    END IF;
    SELECT -sum(balance) INTO granted FROM ledger_account
    WHERE account_id = p_account AND kind IN ('cash', 'expense:goodwill');
    IF granted + p_amount > 9223372036854775807 THEN
        RAISE EXCEPTION 'the sum of all grants does not fit' USING ERRCODE = 'TG409';
    END IF;
    credits := credits + p_amount;
    PERFORM move_credits(p_account, p_id, 'grant', CASE WHEN is_gift THEN 12 ELSE 0 END::SMALLINT,
        CASE WHEN is_gift THEN 'expense:goodwill' ELSE 'cash' END, 'credits', p_amount, p_at, NULL);
    INSERT INTO credit_lot (account_id, id, kind, amount, remaining, expired, withdrawn, priority, expires_at, note,
        created_at)
    VALUES (p_account, p_id, p_kind, p_amount, p_amount, 0, 0, p_priority, p_expires_at, p_note, p_at);
END $$;

-- What nodes of the version before call.
CREATE OR REPLACE FUNCTION grant_credits(
    p_account BYTEA, p_id BYTEA, p_amount BIGINT, p_at BIGINT,
    OUT credits BIGINT, OUT held BIGINT
) LANGUAGE sql AS $$
    SELECT granted.credits, granted.held
    FROM grant_lot(p_account, p_id, p_amount, p_at, 'purchase', 100, NULL, '') AS granted
$$;
