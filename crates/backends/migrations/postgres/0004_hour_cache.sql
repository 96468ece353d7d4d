-- Input that a provider wrote into its cache for an hour: a class with a price of its own.

ALTER TABLE usage_row ADD COLUMN cache_write_1h BIGINT NOT NULL DEFAULT 0;

-- Resolves a hold, or answers how it was resolved before.
CREATE FUNCTION settle_hold(
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
    released := terms.amount - charged;
    available := available + released;
    IF terms.amount > 0 OR p_overrun > 0 THEN
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
        cache_write_1h, outcome, estimated, created_at, first_at, ended_at)
    VALUES (p_account, p_id, terms.key_id, terms.request_id, terms.endpoint, terms.model, p_provider,
        terms.price_version, terms.amount, charged, p_overrun, p_input, p_cache_read, p_cache_write, p_input_audio,
        p_output, p_reasoning, p_output_audio, p_cache_write_1h, p_outcome, p_estimated, terms.created_at, p_first_at,
        p_ended_at);
END $$;

-- Nodes of the version before, and sweeps, know no such class.
CREATE OR REPLACE FUNCTION settle_hold(
    p_account BYTEA, p_id BYTEA, p_charge BIGINT, p_overrun BIGINT,
    p_input BIGINT, p_cache_read BIGINT, p_cache_write BIGINT, p_input_audio BIGINT,
    p_output BIGINT, p_reasoning BIGINT, p_output_audio BIGINT,
    p_outcome TEXT, p_estimated BIGINT, p_provider TEXT, p_first_at BIGINT, p_ended_at BIGINT,
    OUT charged BIGINT, OUT resolved BOOLEAN, OUT available BIGINT
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT settled.charged, settled.resolved, settled.available INTO charged, resolved, available
    FROM settle_hold(p_account, p_id, p_charge, p_overrun, p_input, p_cache_read, p_cache_write, p_input_audio,
        p_output, p_reasoning, p_output_audio, 0::BIGINT, p_outcome, p_estimated, p_provider, p_first_at,
        p_ended_at) AS settled;
END $$;
