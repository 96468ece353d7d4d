-- The chain of each account's transfers (storage/src/chain.rs): prev_hash and hash are filled from here on. The row of
-- kind 'credits' has the newest link, and how many transfers were made before there was a chain.

ALTER TABLE transfer ADD COLUMN sequence BIGINT;

ALTER TABLE ledger_account ADD COLUMN chain_sequence BIGINT NOT NULL DEFAULT 0;
ALTER TABLE ledger_account ADD COLUMN chain_previous BYTEA;
ALTER TABLE ledger_account ADD COLUMN chain_hash BYTEA;
ALTER TABLE ledger_account ADD COLUMN unchained BIGINT NOT NULL DEFAULT 0;

-- Calls wait meanwhile, so that none comes between the count and the chain.
LOCK TABLE ledger_account IN EXCLUSIVE MODE;
UPDATE ledger_account SET unchained = counted.transfers
    FROM (SELECT account_id, count(*) AS transfers FROM transfer GROUP BY account_id) AS counted
    WHERE counted.account_id = ledger_account.account_id AND kind = 'credits';

-- What comes before the first transfer.
CREATE FUNCTION before_first() RETURNS BYTEA LANGUAGE sql IMMUTABLE AS
$$ SELECT '\x0000000000000000000000000000000000000000000000000000000000000000'::bytea $$;

-- The hash of a transfer behind another; storage/src/chain.rs says of which bytes. Not in plain SQL: such a function is
-- planned anew by every statement that calls it.
CREATE FUNCTION transfer_hash(
    p_previous BYTEA, p_account BYTEA, p_sequence BIGINT, p_entry BYTEA, p_leg SMALLINT, p_subject TEXT, p_debit TEXT,
    p_credit TEXT, p_amount BIGINT, p_at BIGINT, p_price_version BIGINT
) RETURNS BYTEA LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN sha256('tollgate transfer 1'::BYTEA || p_previous || p_account || int8send(p_sequence) || p_entry
        || int2send(p_leg) || int8send(p_amount) || int8send(p_at)
        || CASE WHEN p_price_version IS NULL THEN '\x00'::BYTEA ELSE '\x01'::BYTEA || int8send(p_price_version) END
        || int2send(octet_length(p_subject)::SMALLINT) || convert_to(p_subject, 'UTF8')
        || int2send(octet_length(p_debit)::SMALLINT) || convert_to(p_debit, 'UTF8')
        || int2send(octet_length(p_credit)::SMALLINT) || convert_to(p_credit, 'UTF8'));
END $$;

-- Takes a hold out of credits alone. Denied: held is false, available is what there is, and nothing was written.
CREATE OR REPLACE FUNCTION take_hold(
    p_account BYTEA, p_id BYTEA, p_key BYTEA, p_request BYTEA, p_amount BIGINT, p_price_version BIGINT,
    p_model TEXT, p_endpoint TEXT, p_created_at BIGINT, p_expires_at BIGINT,
    OUT held BOOLEAN, OUT available BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
    link ledger_account%ROWTYPE;
BEGIN
    IF p_amount < 0 THEN
        RAISE EXCEPTION 'the amount of a hold is below zero' USING ERRCODE = 'TG409';
    END IF;
    LOOP
        IF p_amount > 0 THEN
            UPDATE ledger_account SET balance = balance - p_amount,
                chain_sequence = chain_sequence + 1,
                chain_previous = COALESCE(chain_hash, before_first()),
                chain_hash = transfer_hash(COALESCE(chain_hash, before_first()), p_account, chain_sequence + 1, p_id,
                    1::SMALLINT, 'hold', 'credits', 'hold', p_amount, p_created_at, p_price_version)
            WHERE account_id = p_account AND kind = 'credits' AND balance >= p_amount
            RETURNING * INTO link;
            held := FOUND;
            available := link.balance;
        END IF;
        EXIT WHEN held;
        SELECT balance INTO available FROM ledger_account WHERE account_id = p_account AND kind = 'credits';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the account does not exist' USING ERRCODE = 'TG404';
        END IF;
        -- The balance may have grown since the update found too little.
        held := p_amount = 0;
        EXIT WHEN available < p_amount OR held;
    END LOOP;

    IF held THEN
        INSERT INTO hold (account_id, id, key_id, request_id, amount, price_version, model, endpoint, created_at,
            expires_at)
        VALUES (p_account, p_id, p_key, p_request, p_amount, p_price_version, p_model, p_endpoint, p_created_at,
            p_expires_at);
    END IF;
    -- After the insert, which waits for a hold of this id that is being resolved.
    IF EXISTS (SELECT FROM usage_row WHERE account_id = p_account AND id = p_id)
        OR (NOT held AND EXISTS (SELECT FROM hold WHERE account_id = p_account AND id = p_id))
    THEN
        RAISE EXCEPTION 'the hold id was used' USING ERRCODE = 'TG409';
    END IF;
    IF held AND p_amount > 0 THEN
        UPDATE ledger_account SET balance = balance + p_amount WHERE account_id = p_account AND kind = 'hold';
        INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at, price_version,
            sequence, prev_hash, hash)
        VALUES (p_account, p_id, 1, 'hold', 'credits', 'hold', p_amount, p_created_at, p_price_version,
            link.chain_sequence, link.chain_previous, link.chain_hash);
    END IF;
END $$;

-- Moves an amount from one ledger account to another, once for each entry and leg. The caller has the account's lock.
CREATE OR REPLACE FUNCTION move_credits(
    p_account BYTEA, p_entry BYTEA, p_subject TEXT, p_leg SMALLINT, p_debit TEXT, p_credit TEXT, p_amount BIGINT,
    p_at BIGINT, p_price_version BIGINT
) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_amount > 0 THEN
        WITH moved AS (
            UPDATE ledger_account SET
                balance = balance + CASE kind WHEN p_credit THEN p_amount WHEN p_debit THEN -p_amount ELSE 0 END,
                chain_sequence = CASE kind WHEN 'credits' THEN chain_sequence + 1 ELSE chain_sequence END,
                chain_previous = CASE kind WHEN 'credits' THEN COALESCE(chain_hash, before_first()) END,
                chain_hash = CASE kind WHEN 'credits' THEN transfer_hash(COALESCE(chain_hash, before_first()), p_account,
                    chain_sequence + 1, p_entry, p_leg, p_subject, p_debit, p_credit, p_amount, p_at, p_price_version)
                    END
            WHERE account_id = p_account AND kind IN (p_debit, p_credit, 'credits')
            RETURNING kind, chain_sequence, chain_previous, chain_hash
        )
        INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at, price_version,
            sequence, prev_hash, hash)
        SELECT p_account, p_entry, p_leg, p_subject, p_debit, p_credit, p_amount, p_at, p_price_version,
            chain_sequence, chain_previous, chain_hash
        FROM moved WHERE kind = 'credits';
    END IF;
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

    charged := LEAST(p_charge, terms.amount);
    IF terms.window_id IS NOT NULL THEN
        included := settle_plan(p_account, terms, charged, p_overrun, p_ended_at);
    END IF;
    released := terms.amount - terms.allowance - (charged - included);
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
                WHEN 'hold' THEN -terms.amount
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
