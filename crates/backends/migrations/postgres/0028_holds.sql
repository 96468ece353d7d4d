-- A hold gives back to credits, while its job goes on, what that cannot cost any more. Of a batch this follows from its lines: each
-- says how much of the hold was for it.

ALTER TABLE hold ADD COLUMN returned BIGINT NOT NULL DEFAULT 0;
ALTER TABLE hold ADD COLUMN times_returned BIGINT NOT NULL DEFAULT 0;
ALTER TABLE batch_line ADD COLUMN held BIGINT NOT NULL DEFAULT 0;

-- Credits alone: what is of an allowance stays. Answers what is held now.
CREATE FUNCTION shrink_hold(p_account BYTEA, p_id BYTEA, p_needed BIGINT, p_most BIGINT, p_first_leg SMALLINT, p_at BIGINT,
    OUT held BIGINT) LANGUAGE plpgsql AS $$
DECLARE
    terms hold%ROWTYPE;
    part BIGINT;
BEGIN
    PERFORM FROM ledger_account WHERE account_id = p_account AND kind = 'credits' FOR NO KEY UPDATE;
    SELECT * INTO terms FROM hold WHERE account_id = p_account AND id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the hold does not exist' USING ERRCODE = 'TG404';
    END IF;
    held := terms.amount - terms.returned;
    part := LEAST(held - GREATEST(p_needed, 0), held - terms.allowance);
    IF part > 0 AND terms.times_returned < p_most THEN
        UPDATE hold SET returned = returned + part, times_returned = times_returned + 1
        WHERE account_id = p_account AND id = p_id;
        PERFORM move_credits(p_account, p_id, 'hold', (p_first_leg + terms.times_returned)::SMALLINT, 'hold', 'credits',
            part, p_at, terms.price_version);
        held := held - part;
    END IF;
END $$;

-- Moves what a hold with a plan was charged and the rest of it: the allowance pays first, and every part that is not
-- charged goes back to where it came from. Answers how much the allowance paid.
CREATE OR REPLACE FUNCTION settle_plan(p_account BYTEA, terms hold, p_charge BIGINT, p_overrun BIGINT, p_at BIGINT)
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
        (3::SMALLINT, 'hold', 'credits', terms.amount - terms.allowance - terms.returned - paid),
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
    book ledger_account%ROWTYPE;
    released BIGINT;
    included BIGINT := 0;
    last BIGINT;
    before_settle BYTEA;
    after_settle BYTEA;
    after_release BYTEA;
    after_overrun BYTEA;
BEGIN
    IF p_charge < 0 OR p_overrun < 0 THEN
        RAISE EXCEPTION 'an amount of the settlement is below zero' USING ERRCODE = 'TG409';
    END IF;
    SELECT * INTO book FROM ledger_account
    WHERE account_id = p_account AND kind = 'credits' FOR NO KEY UPDATE;
    available := book.balance;
    DELETE FROM hold WHERE account_id = p_account AND id = p_id RETURNING * INTO terms;
    resolved := FOUND;
    IF NOT resolved THEN
        SELECT charge INTO charged FROM usage_row WHERE account_id = p_account AND id = p_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the hold does not exist' USING ERRCODE = 'TG404';
        END IF;
        RETURN;
    END IF;

    charged := LEAST(p_charge, terms.amount - terms.returned);
    IF terms.window_id IS NOT NULL THEN
        included := settle_plan(p_account, terms, charged, p_overrun, p_ended_at);
    END IF;
    released := terms.amount - terms.allowance - terms.returned - (charged - included);
    available := available + released;
    IF terms.window_id IS NULL AND (terms.amount > 0 OR p_overrun > 0) THEN
        -- Each leg that moves something has the next place in the chain; one that moves nothing has none.
        last := book.chain_sequence;
        before_settle := COALESCE(book.chain_hash, before_first());
        after_settle := before_settle;
        IF charged > 0 THEN
            last := last + 1;
            after_settle := transfer_hash(before_settle, p_account, last, p_id, 2::SMALLINT, 'hold', 'hold',
                'revenue:usage', charged, p_ended_at, terms.price_version);
        END IF;
        after_release := after_settle;
        IF released > 0 THEN
            last := last + 1;
            after_release := transfer_hash(after_settle, p_account, last, p_id, 3::SMALLINT, 'hold', 'hold', 'credits',
                released, p_ended_at, terms.price_version);
        END IF;
        after_overrun := after_release;
        IF p_overrun > 0 THEN
            last := last + 1;
            after_overrun := transfer_hash(after_release, p_account, last, p_id, 4::SMALLINT, 'hold',
                'expense:overrun', 'revenue:usage', p_overrun, p_ended_at, terms.price_version);
        END IF;
        UPDATE ledger_account SET
            balance = balance + CASE kind
                WHEN 'credits' THEN released
                WHEN 'hold' THEN -(terms.amount - terms.returned)
                WHEN 'revenue:usage' THEN charged + p_overrun
                ELSE -p_overrun
            END,
            chain_sequence = CASE kind WHEN 'credits' THEN last ELSE chain_sequence END,
            chain_previous = CASE WHEN kind <> 'credits' THEN NULL WHEN p_overrun > 0 THEN after_release
                WHEN released > 0 THEN after_settle ELSE before_settle END,
            chain_hash = CASE kind WHEN 'credits' THEN after_overrun END
        WHERE account_id = p_account AND (kind IN ('credits', 'hold')
            OR (kind = 'revenue:usage' AND charged + p_overrun > 0)
            OR (kind = 'expense:overrun' AND p_overrun > 0));
        INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at, price_version,
            sequence, prev_hash, hash)
        SELECT p_account, p_id, legs.leg, 'hold', legs.debit, legs.credit, legs.amount, p_ended_at,
            terms.price_version, legs.sequence, legs.before, legs.after
        FROM (VALUES
            (2::SMALLINT, 'hold', 'revenue:usage', charged, book.chain_sequence + 1, before_settle, after_settle),
            (3::SMALLINT, 'hold', 'credits', released, last - (p_overrun > 0)::INTEGER, after_settle, after_release),
            (4::SMALLINT, 'expense:overrun', 'revenue:usage', p_overrun, last, after_release, after_overrun)
        ) AS legs (leg, debit, credit, amount, sequence, before, after)
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
