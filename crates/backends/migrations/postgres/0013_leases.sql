-- Leases: what a node has taken out of an account's credits ahead of the calls that it serves. It takes holds out of it in
-- its memory and reports the calls that have ended many at a time (docs/money.md, "Many nodes").

-- Which database this is, for the files that nodes keep beside it; and which schema a program must know at the least to use
-- it. A migration that only adds leaves that as it is, so that nodes of the version before go on and can be started; one that
-- takes away sets it to its own number.
CREATE TABLE installation (
    id           BYTEA  NOT NULL PRIMARY KEY,
    least_schema BIGINT NOT NULL
);
INSERT INTO installation VALUES (uuid_send(gen_random_uuid()), 15);

-- Until expires_at, by the clock of the database, the node may take holds. From reclaim_at on, when every call that it
-- can have begun is over, others close it. round: the number of the last one; recalled: somebody else needs what is left.
CREATE TABLE lease (
    account_id BYTEA   NOT NULL REFERENCES account (id),
    id         BYTEA   NOT NULL,
    node       BYTEA   NOT NULL,
    balance    BIGINT  NOT NULL CHECK (balance >= 0),
    in_flight  BIGINT  NOT NULL CHECK (in_flight >= 0),
    round      BIGINT  NOT NULL,
    recalled   BOOLEAN NOT NULL DEFAULT FALSE,
    expires_at BIGINT  NOT NULL,
    reclaim_at BIGINT  NOT NULL,
    PRIMARY KEY (account_id, id)
);

CREATE INDEX lease_reclaim ON lease (reclaim_at);
CREATE INDEX lease_node ON lease (node);

ALTER TABLE ledger_account DROP CONSTRAINT ledger_account_check;
ALTER TABLE ledger_account ADD CONSTRAINT ledger_account_check
    CHECK (balance >= 0 OR kind NOT IN ('credits', 'hold', 'allowance', 'lease'));
INSERT INTO ledger_account (account_id, kind, balance)
    SELECT account.id, kinds.kind, 0 FROM account CROSS JOIN (VALUES ('lease'), ('expense:crash_loss')) AS kinds (kind);

-- Old rows are known to be right.
ALTER TABLE transfer DROP CONSTRAINT transfer_subject_check;
ALTER TABLE transfer ADD CONSTRAINT transfer_subject_check
    CHECK (subject IN ('hold', 'grant', 'window', 'period', 'lot', 'refund', 'lease')) NOT VALID;

-- One conversation of a node with the books of an account: it reports calls that have ended, renews its lease, and has it
-- grow or shrink to p_target (NULL: as it is). A lease that is not there is opened if p_opens. What a call did cost whose
-- lease is gone is the operator's. The same calls may be reported again: each is written once. A round that arrives after a later
-- one does nothing: nobody waits for it, and what it says about the lease is not true any more.
--
-- leased: what the lease has now. available: the credits beside it. is_open: whether there is a lease. may_hold: whether the
-- node may go on taking holds out of it; not when it was recalled, the account has a plan, or no more than p_least.
CREATE FUNCTION lease_round(
    p_account BYTEA, p_lease BYTEA, p_node BYTEA, p_round BIGINT, p_opens BOOLEAN, p_target BIGINT, p_least BIGINT, p_in_flight BIGINT,
    p_life BIGINT, p_keep BIGINT,
    p_ids BYTEA[], p_keys BYTEA[], p_requests BYTEA[], p_endpoints TEXT[], p_models TEXT[], p_providers TEXT[],
    p_versions BIGINT[], p_held BIGINT[], p_charges BIGINT[], p_overruns BIGINT[],
    p_input BIGINT[], p_cache_read BIGINT[], p_cache_write BIGINT[], p_input_audio BIGINT[],
    p_output BIGINT[], p_reasoning BIGINT[], p_output_audio BIGINT[], p_cache_write_1h BIGINT[],
    p_outcomes TEXT[], p_estimated BIGINT[], p_created BIGINT[], p_first BIGINT[], p_ended BIGINT[],
    OUT leased BIGINT, OUT available BIGINT, OUT is_open BOOLEAN, OUT may_hold BOOLEAN
) LANGUAGE plpgsql AS $$
DECLARE
    book ledger_account%ROWTYPE;
    own lease%ROWTYPE;
    now_micros BIGINT := floor(extract(epoch FROM clock_timestamp()) * 1000000);
    known BYTEA[];
    is_late BOOLEAN;
    paid BIGINT;
    lost BIGINT;
    moved BIGINT := 0;
    before BYTEA;
    step RECORD;
    entries BYTEA[] := '{}';
    legs SMALLINT[] := '{}';
    subjects TEXT[] := '{}';
    debits TEXT[] := '{}';
    credited TEXT[] := '{}';
    amounts BIGINT[] := '{}';
    instants BIGINT[] := '{}';
    versions BIGINT[] := '{}';
    sequences BIGINT[] := '{}';
    befores BYTEA[] := '{}';
    hashes BYTEA[] := '{}';
BEGIN
    SELECT * INTO book FROM ledger_account
    WHERE account_id = p_account AND kind = 'credits' FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the account does not exist' USING ERRCODE = 'TG404';
    END IF;
    SELECT * INTO own FROM lease WHERE account_id = p_account AND id = p_lease;
    is_open := FOUND;
    leased := COALESCE(own.balance, 0);
    available := book.balance;
    may_hold := NOT COALESCE(own.recalled, FALSE) AND available + leased >= p_least AND NOT EXISTS (
        SELECT FROM subscription WHERE account_id = p_account AND product = 'plan' AND state = 'active');
    IF own.round >= p_round THEN
        RETURN;
    END IF;

    -- By the index, however large the table is: as a condition on each call it may be a join with all of the account's rows.
    known := ARRAY(SELECT id FROM usage_row WHERE account_id = p_account AND id = ANY (p_ids));
    SELECT COALESCE(sum(LEAST(call.charge, call.held)), 0), COALESCE(sum(call.overrun), 0) INTO paid, lost
    FROM unnest(p_ids, p_held, p_charges, p_overruns) AS call (id, held, charge, overrun)
    WHERE call.id <> ALL (known);
    is_late := paid > leased OR NOT is_open;
    IF is_late THEN
        lost := lost + paid;
        paid := 0;
    END IF;
    leased := leased - paid;

    IF p_target < leased AND is_open THEN
        moved := p_target - leased;
    ELSIF p_target > leased AND may_hold AND (is_open OR p_opens) THEN
        moved := GREATEST(0, LEAST(p_target, (available + leased) / 4) - leased);
    END IF;
    leased := leased + moved;
    available := available - moved;
    IF NOT is_open AND leased > 0 THEN
        -- A version that knew no leases may have made the account.
        INSERT INTO ledger_account (account_id, kind, balance)
            VALUES (p_account, 'lease', 0), (p_account, 'expense:crash_loss', 0) ON CONFLICT DO NOTHING;
        INSERT INTO lease (account_id, id, node, balance, in_flight, round, expires_at, reclaim_at)
            VALUES (p_account, p_lease, p_node, leased, p_in_flight, p_round, now_micros + p_life, now_micros + p_life + p_keep);
        is_open := TRUE;
    ELSIF leased = 0 THEN
        DELETE FROM lease WHERE account_id = p_account AND id = p_lease;
        is_open := FALSE;
    ELSE
        UPDATE lease SET balance = leased, in_flight = p_in_flight, round = p_round, expires_at = now_micros + p_life,
            reclaim_at = now_micros + p_life + p_keep
        WHERE account_id = p_account AND id = p_lease;
    END IF;
    may_hold := may_hold AND is_open;

    FOR step IN
        SELECT call.id AS entry, move.leg, 'hold' AS subject, move.debit, move.credit, move.amount, move.at, call.version
        FROM unnest(p_ids, p_held, p_charges, p_overruns, p_versions, p_created, p_ended)
            AS call (id, held, charge, overrun, version, created, ended)
        CROSS JOIN LATERAL (VALUES
            (19::SMALLINT, 'lease', 'hold', CASE WHEN is_late THEN 0 ELSE call.held END, call.created),
            (2::SMALLINT, 'hold', 'revenue:usage',
                CASE WHEN is_late THEN 0 ELSE LEAST(call.charge, call.held) END, call.ended),
            (20::SMALLINT, 'hold', 'lease',
                CASE WHEN is_late THEN 0 ELSE call.held - LEAST(call.charge, call.held) END, call.ended),
            (4::SMALLINT, 'expense:overrun', 'revenue:usage',
                CASE WHEN is_late THEN 0 ELSE call.overrun END, call.ended),
            (21::SMALLINT, 'expense:crash_loss', 'revenue:usage',
                CASE WHEN is_late THEN LEAST(call.charge, call.held) + call.overrun ELSE 0 END, call.ended)
        ) AS move (leg, debit, credit, amount, at)
        WHERE move.amount > 0
            AND call.id <> ALL (known)
        UNION ALL
        SELECT uuid_send(gen_random_uuid()), CASE WHEN moved > 0 THEN 17 ELSE 18 END::SMALLINT, 'lease',
            CASE WHEN moved > 0 THEN 'credits' ELSE 'lease' END, CASE WHEN moved > 0 THEN 'lease' ELSE 'credits' END,
            abs(moved), now_micros, NULL
        WHERE moved <> 0
    LOOP
        before := COALESCE(book.chain_hash, before_first());
        book.chain_sequence := book.chain_sequence + 1;
        book.chain_previous := before;
        book.chain_hash := transfer_hash(before, p_account, book.chain_sequence, step.entry, step.leg, step.subject,
            step.debit, step.credit, step.amount, step.at, step.version);
        entries := entries || step.entry;
        legs := legs || step.leg;
        subjects := subjects || step.subject;
        debits := debits || step.debit;
        credited := credited || step.credit;
        amounts := amounts || step.amount;
        instants := instants || step.at;
        versions := versions || step.version;
        sequences := sequences || book.chain_sequence;
        befores := befores || before;
        hashes := hashes || book.chain_hash;
    END LOOP;
    IF cardinality(entries) > 0 THEN
        INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at, price_version,
            sequence, prev_hash, hash)
        SELECT p_account, * FROM unnest(entries, legs, subjects, debits, credited, amounts, instants, versions,
            sequences, befores, hashes);
        UPDATE ledger_account SET
            balance = balance + CASE kind
                WHEN 'credits' THEN -moved
                WHEN 'lease' THEN moved - paid
                WHEN 'revenue:usage' THEN paid + lost
                ELSE -lost
            END,
            chain_sequence = CASE kind WHEN 'credits' THEN book.chain_sequence ELSE chain_sequence END,
            chain_previous = CASE kind WHEN 'credits' THEN book.chain_previous END,
            chain_hash = CASE kind WHEN 'credits' THEN book.chain_hash END
        WHERE account_id = p_account AND (kind = 'credits'
            OR (kind = 'lease' AND moved <> paid)
            OR (kind = 'revenue:usage' AND paid + lost > 0)
            OR (kind = CASE WHEN is_late THEN 'expense:crash_loss' ELSE 'expense:overrun' END AND lost > 0));
    END IF;
    INSERT INTO usage_row (account_id, id, key_id, request_id, endpoint, model, provider, price_version, held, charge,
        overrun, input, cache_read, cache_write, input_audio, output, reasoning, output_audio, cache_write_1h, outcome,
        estimated, created_at, first_at, ended_at)
    SELECT p_account, call.id, call.key, call.request, call.endpoint, call.model, call.provider, call.version,
        CASE WHEN is_late THEN 0 ELSE call.held END,
        CASE WHEN is_late THEN 0 ELSE LEAST(call.charge, call.held) END,
        CASE WHEN is_late THEN LEAST(call.charge, call.held) + call.overrun ELSE call.overrun END,
        call.input, call.cache_read, call.cache_write, call.input_audio, call.output, call.reasoning, call.output_audio,
        call.cache_write_1h, call.outcome, call.estimated, call.created, call.first, call.ended
    FROM unnest(p_ids, p_keys, p_requests, p_endpoints, p_models, p_providers, p_versions, p_held, p_charges, p_overruns,
        p_input, p_cache_read, p_cache_write, p_input_audio, p_output, p_reasoning, p_output_audio, p_cache_write_1h,
        p_outcomes, p_estimated, p_created, p_first, p_ended)
        AS call (id, key, request, endpoint, model, provider, version, held, charge, overrun,
            input, cache_read, cache_write, input_audio, output, reasoning, output_audio, cache_write_1h,
            outcome, estimated, created, first, ended)
    WHERE call.id <> ALL (known);
END $$;

-- Asks every node for what is left of its leases of an account; answers how much they have together, and how much of it calls
-- that run do not hold, as their nodes said last.
CREATE FUNCTION recall_leases(p_account BYTEA, OUT leased BIGINT, OUT unused BIGINT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lease SET recalled = TRUE WHERE account_id = p_account AND NOT recalled;
    IF FOUND THEN
        PERFORM pg_notify('tollgate', 'lease ' || encode(p_account, 'hex'));
    END IF;
    SELECT COALESCE(sum(balance), 0), COALESCE(sum(balance - LEAST(in_flight, balance)), 0) INTO leased, unused
    FROM lease WHERE account_id = p_account;
END $$;

-- Closes leases whose node has not been heard of for as long as its calls can last; answers how many.
CREATE FUNCTION reclaim_leases(p_limit BIGINT, OUT reclaimed BIGINT) LANGUAGE plpgsql AS $$
DECLARE
    now_micros BIGINT := floor(extract(epoch FROM clock_timestamp()) * 1000000);
    over RECORD;
    rest BIGINT;
BEGIN
    reclaimed := 0;
    FOR over IN
        SELECT account_id, id FROM lease WHERE reclaim_at <= now_micros ORDER BY account_id, id LIMIT p_limit
    LOOP
        PERFORM FROM ledger_account WHERE account_id = over.account_id AND kind = 'credits' FOR NO KEY UPDATE;
        DELETE FROM lease WHERE account_id = over.account_id AND id = over.id AND reclaim_at <= now_micros
        RETURNING balance INTO rest;
        IF FOUND THEN
            reclaimed := reclaimed + 1;
            PERFORM move_credits(over.account_id, uuid_send(gen_random_uuid()), 'lease', 18::SMALLINT, 'lease', 'credits',
                rest, now_micros, NULL);
        END IF;
    END LOOP;
END $$;
