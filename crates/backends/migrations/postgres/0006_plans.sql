-- Plans: subscriptions, weekly allowances, and the parts of the books that they need.

CREATE TABLE subscription (
    id                   BYTEA  NOT NULL PRIMARY KEY,
    account_id           BYTEA  NOT NULL REFERENCES account (id),
    product              TEXT   NOT NULL,
    subject              TEXT   NOT NULL,
    price                BIGINT NOT NULL CHECK (price >= 0),
    cadence              TEXT   NOT NULL,
    payer                TEXT   NOT NULL,
    allowance            BIGINT NOT NULL CHECK (allowance >= 0),
    anchor               BIGINT NOT NULL,
    period               BIGINT NOT NULL,
    paid_through         BIGINT NOT NULL,
    cancel_at_period_end BIGINT NOT NULL,
    past_due_since       BIGINT,
    state                TEXT   NOT NULL,
    window_number        BIGINT
);

CREATE UNIQUE INDEX subscription_one_plan ON subscription (account_id)
    WHERE product = 'plan' AND state IN ('active', 'past_due');
CREATE INDEX subscription_account ON subscription (account_id, id);
CREATE INDEX subscription_due ON subscription (paid_through) WHERE state IN ('active', 'past_due');

CREATE TABLE subscription_event (
    subscription_id BYTEA  NOT NULL,
    number          BIGINT NOT NULL,
    kind            TEXT   NOT NULL,
    state           TEXT   NOT NULL,
    period          BIGINT NOT NULL,
    at              BIGINT NOT NULL,
    PRIMARY KEY (subscription_id, number)
);

CREATE TRIGGER subscription_event_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON subscription_event
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The part of a hold that is of an allowance, and the plan that applied; window_id names the week in the ledger.
ALTER TABLE hold ADD COLUMN allowance BIGINT NOT NULL DEFAULT 0;
ALTER TABLE hold ADD COLUMN plan_name TEXT;
ALTER TABLE hold ADD COLUMN window_id BYTEA;

-- The part of a charge that an allowance paid.
ALTER TABLE usage_row ADD COLUMN included BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_row ADD COLUMN plan_name TEXT;
ALTER TABLE usage_row ADD COLUMN window_id BYTEA;

ALTER TABLE ledger_account DROP CONSTRAINT ledger_account_check;
ALTER TABLE ledger_account ADD CONSTRAINT ledger_account_check
    CHECK (balance >= 0 OR kind NOT IN ('credits', 'hold', 'allowance'));
INSERT INTO ledger_account (account_id, kind, balance)
    SELECT account.id, kinds.kind, 0 FROM account CROSS JOIN
    (VALUES ('allowance'), ('grant:plan'), ('revenue:included'), ('revenue:plan'), ('breakage')) AS kinds (kind);

-- entry_id is the id of the hold, of the grant, of the week or of the paid period; subject says which. Old rows are
-- known to be right.
ALTER TABLE transfer DROP CONSTRAINT transfer_subject_check;
ALTER TABLE transfer ADD CONSTRAINT transfer_subject_check
    CHECK (subject IN ('hold', 'grant', 'window', 'period')) NOT VALID;

-- Moves an amount from one ledger account to another, once for each entry and leg. The caller has the account's lock.
CREATE FUNCTION move_credits(
    p_account BYTEA, p_entry BYTEA, p_subject TEXT, p_leg SMALLINT, p_debit TEXT, p_credit TEXT, p_amount BIGINT,
    p_at BIGINT, p_price_version BIGINT
) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_amount > 0 THEN
        INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at, price_version)
        VALUES (p_account, p_entry, p_leg, p_subject, p_debit, p_credit, p_amount, p_at, p_price_version);
        UPDATE ledger_account SET balance = balance + CASE kind WHEN p_credit THEN p_amount ELSE -p_amount END
        WHERE account_id = p_account AND kind IN (p_debit, p_credit);
    END IF;
END $$;

-- What names a week in the ledger; storage/src/subscription.rs makes the same of the same bytes.
CREATE FUNCTION window_entry(p_subscription BYTEA, p_number BIGINT) RETURNS BYTEA LANGUAGE sql IMMUTABLE AS
$$ SELECT substring(sha256('window'::bytea || p_subscription || int8send(p_number)) FROM 1 FOR 16) $$;

-- Closes the open week: what is left of it goes.
CREATE FUNCTION close_window(p_account BYTEA, p_subscription BYTEA, p_number BIGINT, p_at BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM move_credits(p_account, window_entry(p_subscription, p_number), 'window', 10::SMALLINT, 'allowance',
        'breakage', balance, p_at, NULL)
    FROM ledger_account WHERE account_id = p_account AND kind = 'allowance';
END $$;

-- Takes a hold out of the open week of the account's plan and out of credits. Denied: held is false, available is
-- the most that a hold could have taken, and nothing was written.
CREATE FUNCTION take_hold(
    p_account BYTEA, p_id BYTEA, p_key BYTEA, p_request BYTEA, p_amount BIGINT, p_price_version BIGINT,
    p_model TEXT, p_endpoint TEXT, p_created_at BIGINT, p_expires_at BIGINT, p_not_covered_by TEXT[],
    OUT held BOOLEAN, OUT available BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
    plan subscription%ROWTYPE;
    since BIGINT;
    week BIGINT;
    is_paid BOOLEAN;
    is_next BOOLEAN;
    remaining BIGINT;
    drawn BIGINT;
    entry BYTEA;
BEGIN
    -- Without a plan, which is what most accounts are, one look is all that it costs.
    IF p_amount > 0 AND EXISTS (SELECT FROM subscription
        WHERE account_id = p_account AND product = 'plan' AND state IN ('active', 'past_due'))
    THEN
        SELECT balance INTO available FROM ledger_account
        WHERE account_id = p_account AND kind = 'credits' FOR NO KEY UPDATE;
        -- Again under the lock, which everything that changes a subscription takes.
        SELECT * INTO plan FROM subscription
        WHERE account_id = p_account AND product = 'plan' AND state = 'active'
            AND subject <> ALL (p_not_covered_by);
        since := p_created_at - plan.anchor;
        week := (since - ((since % 604800000000) + 604800000000) % 604800000000) / 604800000000;
        is_paid := p_created_at < plan.paid_through;
        is_next := week > COALESCE(plan.window_number, -1);
        IF plan.id IS NULL OR (NOT is_paid AND (is_next OR plan.cancel_at_period_end <> 0))
            OR (NOT is_next AND plan.window_number IS NULL)
        THEN
            plan := NULL;
        END IF;
    END IF;
    IF plan.id IS NULL THEN
        SELECT taken.held, taken.available INTO held, available
        FROM take_hold(p_account, p_id, p_key, p_request, p_amount, p_price_version, p_model, p_endpoint,
            p_created_at, p_expires_at) AS taken;
        RETURN;
    END IF;

    IF EXISTS (SELECT FROM usage_row WHERE account_id = p_account AND id = p_id)
        OR EXISTS (SELECT FROM hold WHERE account_id = p_account AND id = p_id)
    THEN
        RAISE EXCEPTION 'the hold id was used' USING ERRCODE = 'TG409';
    END IF;
    remaining := plan.allowance;
    IF NOT is_next THEN
        SELECT balance INTO remaining FROM ledger_account WHERE account_id = p_account AND kind = 'allowance';
    END IF;
    drawn := LEAST(remaining, p_amount);
    held := available >= p_amount - drawn;
    IF NOT held THEN
        available := LEAST(available::NUMERIC + remaining, 9223372036854775807);
        RETURN;
    END IF;
    IF is_next THEN
        IF plan.window_number IS NOT NULL THEN
            PERFORM close_window(p_account, plan.id, plan.window_number, p_created_at);
        END IF;
        PERFORM move_credits(p_account, window_entry(plan.id, week), 'window', 9::SMALLINT, 'grant:plan',
            'allowance', plan.allowance, p_created_at, NULL);
        UPDATE subscription SET window_number = week WHERE id = plan.id;
    ELSE
        week := plan.window_number;
    END IF;
    entry := window_entry(plan.id, week);
    INSERT INTO hold (account_id, id, key_id, request_id, amount, price_version, model, endpoint, created_at,
        expires_at, allowance, plan_name, window_id)
    VALUES (p_account, p_id, p_key, p_request, p_amount, p_price_version, p_model, p_endpoint, p_created_at,
        p_expires_at, drawn, plan.subject, entry);
    PERFORM move_credits(p_account, p_id, 'hold', 1::SMALLINT, 'credits', 'hold', p_amount - drawn, p_created_at,
        p_price_version);
    PERFORM move_credits(p_account, p_id, 'hold', 5::SMALLINT, 'allowance', 'hold', drawn, p_created_at,
        p_price_version);
    available := available - (p_amount - drawn);
END $$;

-- Moves what a hold with a plan was charged and the rest of it: the allowance pays first, and every part that is not
-- charged goes back to where it came from. Answers how much the allowance paid.
CREATE FUNCTION settle_plan(p_account BYTEA, terms hold, p_charge BIGINT, p_overrun BIGINT, p_at BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    included BIGINT := LEAST(p_charge, terms.allowance);
    paid BIGINT := p_charge - included;
    is_open BOOLEAN;
BEGIN
    is_open := EXISTS (SELECT FROM subscription
        WHERE account_id = p_account AND product = 'plan' AND state IN ('active', 'past_due')
            AND window_entry(id, window_number) = terms.window_id);
    PERFORM move_credits(p_account, terms.id, 'hold', leg, debit, credit, amount, p_at, terms.price_version)
    FROM (VALUES
        (2::SMALLINT, 'hold', 'revenue:usage', paid),
        (3::SMALLINT, 'hold', 'credits', terms.amount - terms.allowance - paid),
        (4::SMALLINT, 'expense:overrun', 'revenue:usage', p_overrun),
        (6::SMALLINT, 'hold', 'revenue:included', included),
        (CASE WHEN is_open THEN 7 ELSE 8 END::SMALLINT, 'hold', CASE WHEN is_open THEN 'allowance' ELSE 'breakage' END,
            terms.allowance - included)
    ) AS legs (leg, debit, credit, amount);
    RETURN included;
END $$;

-- Resolves a hold, or answers how it was resolved before.
CREATE OR REPLACE FUNCTION settle_hold(
    p_account BYTEA, p_id BYTEA, p_charge BIGINT, p_overrun BIGINT,
    p_input BIGINT, p_cache_read BIGINT, p_cache_write BIGINT, p_input_audio BIGINT,
    p_output BIGINT, p_reasoning BIGINT, p_output_audio BIGINT,
    p_cache_write_1h BIGINT,
    p_outcome TEXT, p_estimated BIGINT, p_provider TEXT, p_first_at BIGINT, p_ended_at BIGINT,
    OUT charged BIGINT, OUT resolved BOOLEAN, OUT available BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
    terms hold%ROWTYPE;
    released BIGINT;
    included BIGINT := 0;
BEGIN
    IF p_charge < 0 OR p_overrun < 0 THEN
        RAISE EXCEPTION 'an amount of the settlement is below zero' USING ERRCODE = 'TG409';
    END IF;
    SELECT balance INTO available FROM ledger_account
    WHERE account_id = p_account AND kind = 'credits' FOR NO KEY UPDATE;
    DELETE FROM hold WHERE account_id = p_account AND id = p_id RETURNING * INTO terms;
    resolved := FOUND;
    IF NOT resolved THEN
        SELECT charge INTO charged FROM usage_row WHERE account_id = p_account AND id = p_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the hold does not exist' USING ERRCODE = 'TG404';
        END IF;
        RETURN;
    END IF;

    charged := LEAST(p_charge, terms.amount);
    IF terms.window_id IS NOT NULL THEN
        included := settle_plan(p_account, terms, charged, p_overrun, p_ended_at);
    END IF;
    released := terms.amount - terms.allowance - (charged - included);
    available := available + released;
    IF terms.window_id IS NULL AND (terms.amount > 0 OR p_overrun > 0) THEN
        UPDATE ledger_account SET balance = balance + CASE kind
            WHEN 'credits' THEN released
            WHEN 'hold' THEN -terms.amount
            WHEN 'revenue:usage' THEN charged + p_overrun
            ELSE -p_overrun
        END
        WHERE account_id = p_account AND (kind = 'hold'
            OR (kind = 'credits' AND released > 0)
            OR (kind = 'revenue:usage' AND charged + p_overrun > 0)
            OR (kind = 'expense:overrun' AND p_overrun > 0));
        INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at, price_version)
        SELECT p_account, p_id, legs.leg, 'hold', legs.debit, legs.credit, legs.amount, p_ended_at,
            terms.price_version
        FROM (VALUES
            (2::SMALLINT, 'hold', 'revenue:usage', charged),
            (3::SMALLINT, 'hold', 'credits', released),
            (4::SMALLINT, 'expense:overrun', 'revenue:usage', p_overrun)
        ) AS legs (leg, debit, credit, amount)
        WHERE legs.amount > 0;
    END IF;
    INSERT INTO usage_row (account_id, id, key_id, request_id, endpoint, model, provider, price_version,
        held, charge, overrun, input, cache_read, cache_write, input_audio, output, reasoning, output_audio,
        cache_write_1h, outcome, estimated, created_at, first_at, ended_at, included, plan_name, window_id)
    VALUES (p_account, p_id, terms.key_id, terms.request_id, terms.endpoint, terms.model, p_provider,
        terms.price_version, terms.amount, charged, p_overrun, p_input, p_cache_read, p_cache_write, p_input_audio,
        p_output, p_reasoning, p_output_audio, p_cache_write_1h, p_outcome, p_estimated, terms.created_at, p_first_at,
        p_ended_at,
        included, terms.plan_name, terms.window_id);
END $$;
