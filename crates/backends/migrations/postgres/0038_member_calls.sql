-- Calls of members with a session: the member in place of the API key.

ALTER TABLE hold ADD COLUMN member_id BYTEA;
ALTER TABLE job ADD COLUMN member_id BYTEA;
ALTER TABLE usage_row ADD COLUMN member_id BYTEA;

-- The member is recorded after the insertion of the row, once and in the same statement.
CREATE TRIGGER usage_row_member_once BEFORE UPDATE OF member_id ON usage_row
    FOR EACH ROW WHEN (OLD.member_id IS NOT NULL) EXECUTE FUNCTION refuse_change();

CREATE FUNCTION note_members(p_account BYTEA, p_ids BYTEA[], p_members BYTEA[]) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE usage_row SET member_id = call.member
    FROM unnest(p_ids, p_members) AS call (id, member)
    WHERE usage_row.account_id = p_account AND usage_row.id = call.id
        AND call.member IS NOT NULL AND usage_row.member_id IS NULL;
END $$;

-- Takes a hold of an API key, or of a member.
CREATE FUNCTION take_hold(
    p_account BYTEA, p_id BYTEA, p_key BYTEA, p_request BYTEA, p_amount BIGINT, p_price_version BIGINT,
    p_model TEXT, p_endpoint TEXT, p_created_at BIGINT, p_expires_at BIGINT, p_not_covered_by TEXT[], p_member BYTEA,
    OUT held BOOLEAN, OUT available BIGINT
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT taken.held, taken.available INTO held, available
    FROM take_hold(p_account, p_id, p_key, p_request, p_amount, p_price_version, p_model, p_endpoint, p_created_at,
        p_expires_at, p_not_covered_by) AS taken;
    IF held AND p_member IS NOT NULL THEN
        UPDATE hold SET member_id = p_member WHERE account_id = p_account AND id = p_id;
    END IF;
END $$;

-- Resolves a hold, or returns how it was resolved before. Like the function that it replaces, but also copies the member.
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
        -- Each leg with an amount above zero has the next place in the chain; other legs have none.
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
        cache_write_1h, outcome, estimated, created_at, first_at, ended_at, included, plan_name, window_id, member_id)
    VALUES (p_account, p_id, terms.key_id, terms.request_id, terms.endpoint, terms.model, p_provider,
        terms.price_version, terms.amount, charged, p_overrun, p_input, p_cache_read, p_cache_write, p_input_audio,
        p_output, p_reasoning, p_output_audio, p_cache_write_1h, p_outcome, p_estimated, terms.created_at, p_first_at,
        p_ended_at,
        included, terms.plan_name, terms.window_id, terms.member_id);
END $$;
