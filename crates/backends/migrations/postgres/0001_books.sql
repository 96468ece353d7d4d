-- Tenants, keys, books, usage and prices. Both engines have the same tables and columns, journal_mark apart.
-- Ids are 16 bytes, amounts whole nano-credits, instants microseconds since the epoch (UTC), and a price version is
-- the same 64 bits read as a signed number.

CREATE TABLE account (
    id         BYTEA  NOT NULL PRIMARY KEY,
    name       TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    rpm        BIGINT,
    tpm        BIGINT,
    created_at BIGINT NOT NULL
);

CREATE TABLE api_key (
    id            BYTEA  NOT NULL PRIMARY KEY,
    account_id    BYTEA  NOT NULL REFERENCES account (id),
    name          TEXT   NOT NULL,
    digest        BYTEA  NOT NULL,
    digest_prefix BYTEA  NOT NULL,
    last4         TEXT   NOT NULL,
    mode          TEXT   NOT NULL,
    state         TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    expires_at    BIGINT,
    revoked_at    BIGINT
);

CREATE UNIQUE INDEX api_key_digest_prefix ON api_key (digest_prefix);
CREATE INDEX api_key_account ON api_key (account_id, id);

-- The row of kind 'credits' is also the lock of its account: whatever moves credits locks it before anything else,
-- so calls of one account follow one another and no two calls can wait for each other.
-- Pages are half empty, so that a balance is updated in place and the index stays as it is.
CREATE TABLE ledger_account (
    account_id BYTEA  NOT NULL REFERENCES account (id),
    kind       TEXT   NOT NULL,
    balance    BIGINT NOT NULL,
    PRIMARY KEY (account_id, kind),
    CHECK (balance >= 0 OR kind NOT IN ('credits', 'hold'))
) WITH (fillfactor = 50);

-- Transfers, holds and usage rows are written by the functions below only, which have seen the account's ledger.
-- A foreign key would lock the account's row once more for each of them.

-- entry_id is the id of the hold or of the grant; subject says which.
CREATE TABLE transfer (
    account_id    BYTEA    NOT NULL,
    entry_id      BYTEA    NOT NULL,
    leg           SMALLINT NOT NULL,
    subject       TEXT     NOT NULL CHECK (subject IN ('hold', 'grant')),
    debit         TEXT     NOT NULL,
    credit        TEXT     NOT NULL,
    amount        BIGINT   NOT NULL CHECK (amount > 0),
    created_at    BIGINT   NOT NULL,
    price_version BIGINT,
    prev_hash     BYTEA,
    hash          BYTEA,
    PRIMARY KEY (account_id, entry_id, leg)
);

-- A grant happens once, whichever account it names.
CREATE UNIQUE INDEX transfer_grant ON transfer (entry_id) WHERE subject = 'grant';

-- Holds that are open. The row goes when the hold is resolved; its transfers and its usage row are the record.
CREATE TABLE hold (
    account_id    BYTEA  NOT NULL,
    id            BYTEA  NOT NULL,
    key_id        BYTEA,
    request_id    BYTEA  NOT NULL,
    amount        BIGINT NOT NULL CHECK (amount >= 0),
    price_version BIGINT NOT NULL,
    model         TEXT   NOT NULL,
    endpoint      TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,
    PRIMARY KEY (account_id, id)
);

CREATE TABLE usage_row (
    account_id    BYTEA    NOT NULL,
    id            BYTEA    NOT NULL,
    key_id        BYTEA,
    request_id    BYTEA    NOT NULL,
    endpoint      TEXT     NOT NULL,
    model         TEXT     NOT NULL,
    provider      TEXT     NOT NULL,
    price_version BIGINT   NOT NULL,
    held          BIGINT   NOT NULL,
    charge        BIGINT   NOT NULL,
    overrun       BIGINT   NOT NULL,
    input         BIGINT   NOT NULL,
    cache_read    BIGINT   NOT NULL,
    cache_write   BIGINT   NOT NULL,
    input_audio   BIGINT   NOT NULL,
    output        BIGINT   NOT NULL,
    reasoning     BIGINT   NOT NULL,
    output_audio  BIGINT   NOT NULL,
    outcome       TEXT     NOT NULL,
    estimated     BIGINT   NOT NULL,
    created_at    BIGINT   NOT NULL,
    first_at      BIGINT,
    ended_at      BIGINT   NOT NULL,
    PRIMARY KEY (account_id, id)
);

CREATE TABLE price_version (
    version    BIGINT NOT NULL PRIMARY KEY,
    model      TEXT   NOT NULL,
    prices     TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;

CREATE TRIGGER transfer_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON transfer
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER usage_row_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON usage_row
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER price_version_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON price_version
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The functions below are one round trip each. They raise TG404 for what does not exist and TG409 for what a rule
-- forbids, and then nothing was written. They ask for READ COMMITTED: each statement sees what was committed while
-- it waited for the lock.

-- Takes a hold. Denied: held is false, available is what there is, and nothing was written.
CREATE FUNCTION take_hold(
    p_account BYTEA, p_id BYTEA, p_key BYTEA, p_request BYTEA, p_amount BIGINT, p_price_version BIGINT,
    p_model TEXT, p_endpoint TEXT, p_created_at BIGINT, p_expires_at BIGINT,
    OUT held BOOLEAN, OUT available BIGINT
) LANGUAGE plpgsql AS $$
BEGIN
    IF p_amount < 0 THEN
        RAISE EXCEPTION 'the amount of a hold is below zero' USING ERRCODE = 'TG409';
    END IF;
    LOOP
        IF p_amount > 0 THEN
            UPDATE ledger_account SET balance = balance - p_amount
            WHERE account_id = p_account AND kind = 'credits' AND balance >= p_amount
            RETURNING balance INTO available;
            held := FOUND;
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
        INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at, price_version)
        VALUES (p_account, p_id, 1, 'hold', 'credits', 'hold', p_amount, p_created_at, p_price_version);
    END IF;
END $$;

-- Resolves a hold, or answers how it was resolved before.
CREATE FUNCTION settle_hold(
    p_account BYTEA, p_id BYTEA, p_charge BIGINT, p_overrun BIGINT,
    p_input BIGINT, p_cache_read BIGINT, p_cache_write BIGINT, p_input_audio BIGINT,
    p_output BIGINT, p_reasoning BIGINT, p_output_audio BIGINT,
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
        outcome, estimated, created_at, first_at, ended_at)
    VALUES (p_account, p_id, terms.key_id, terms.request_id, terms.endpoint, terms.model, p_provider,
        terms.price_version, terms.amount, charged, p_overrun, p_input, p_cache_read, p_cache_write, p_input_audio,
        p_output, p_reasoning, p_output_audio, p_outcome, p_estimated, terms.created_at, p_first_at, p_ended_at);
END $$;

-- Voids holds whose time is over, in order of account, so that two sweeps lock accounts in the same order.
CREATE FUNCTION sweep_holds(p_now BIGINT, p_limit BIGINT, OUT voided BIGINT) LANGUAGE plpgsql AS $$
DECLARE
    expired RECORD;
BEGIN
    voided := 0;
    FOR expired IN
        SELECT account_id, id FROM hold WHERE expires_at <= p_now ORDER BY account_id, id LIMIT p_limit
    LOOP
        SELECT voided + resolved::INTEGER INTO voided
        FROM settle_hold(expired.account_id, expired.id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'crashed', 0, '', NULL,
            p_now);
    END LOOP;
END $$;

-- Puts credits into an account, once for each id.
CREATE FUNCTION grant_credits(
    p_account BYTEA, p_id BYTEA, p_amount BIGINT, p_at BIGINT,
    OUT credits BIGINT, OUT held BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
    granted BIGINT;
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
    IF EXISTS (SELECT FROM transfer WHERE account_id = p_account AND entry_id = p_id AND leg = 0) THEN
        RETURN;
    END IF;
    SELECT -balance INTO granted FROM ledger_account WHERE account_id = p_account AND kind = 'cash';
    IF granted > 9223372036854775807 - p_amount THEN
        RAISE EXCEPTION 'the sum of all grants does not fit' USING ERRCODE = 'TG409';
    END IF;
    credits := credits + p_amount;
    UPDATE ledger_account SET balance = balance + CASE kind WHEN 'credits' THEN p_amount ELSE -p_amount END
    WHERE account_id = p_account AND kind IN ('credits', 'cash');
    INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at)
    VALUES (p_account, p_id, 0, 'grant', 'cash', 'credits', p_amount, p_at);
END $$;
