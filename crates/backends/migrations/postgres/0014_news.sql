-- What nodes remember is told to all of them when it changes, whoever changes it: a node, a command, another version of
-- the program, a hand. What is told at once by one transaction is told once, when it is committed.
-- The texts: 'keys', 'account <id in hexadecimal>', 'lease <id in hexadecimal>'; anything else means everything.

CREATE FUNCTION tell_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tollgate', 'keys');
    RETURN NULL;
END $$;

CREATE FUNCTION tell_account() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tollgate', 'account ' || encode(OLD.id, 'hex'));
    RETURN NULL;
END $$;

CREATE FUNCTION tell_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tollgate', 'account ' || encode(OLD.account_id, 'hex'));
    RETURN NULL;
END $$;

CREATE TRIGGER account_change AFTER UPDATE OR DELETE ON account
    FOR EACH ROW EXECUTE FUNCTION tell_account();
CREATE TRIGGER api_key_new AFTER INSERT ON api_key
    FOR EACH STATEMENT EXECUTE FUNCTION tell_keys();
CREATE TRIGGER api_key_change AFTER UPDATE OR DELETE ON api_key
    FOR EACH ROW EXECUTE FUNCTION tell_owner();
