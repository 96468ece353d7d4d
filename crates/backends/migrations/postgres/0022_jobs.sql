-- What becomes of jobs is told to every process that waits for it or could carry them out, in the transaction that does it. A channel of
-- its own: nodes of an older version do not listen to it.
-- The texts: 'due', 'changed <id in hexadecimal>', 'cancelled <id in hexadecimal>'; anything else means any of them.

CREATE FUNCTION tell_job_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tollgate_jobs', 'due');
    RETURN NULL;
END $$;

CREATE FUNCTION tell_job_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tollgate_jobs', 'changed ' || encode(NEW.id, 'hex'));
    RETURN NULL;
END $$;

CREATE FUNCTION tell_job_cancelled() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tollgate_jobs', 'cancelled ' || encode(NEW.id, 'hex'));
    RETURN NULL;
END $$;

CREATE TRIGGER job_new AFTER INSERT ON job
    FOR EACH ROW EXECUTE FUNCTION tell_job_due();
-- Given back by its worker.
CREATE TRIGGER job_back AFTER UPDATE OF worker ON job
    FOR EACH ROW WHEN (NEW.worker IS NULL AND OLD.worker IS NOT NULL) EXECUTE FUNCTION tell_job_due();
CREATE TRIGGER job_change AFTER UPDATE OF last_event ON job
    FOR EACH ROW WHEN (NEW.last_event <> OLD.last_event) EXECUTE FUNCTION tell_job_changed();
CREATE TRIGGER job_cancel AFTER UPDATE OF cancel_requested ON job
    FOR EACH ROW WHEN (NEW.cancel_requested <> OLD.cancel_requested) EXECUTE FUNCTION tell_job_cancelled();

-- Whether the pictures of a key's requests are waited for, unless the request says otherwise.
ALTER TABLE api_key ADD COLUMN sync BIGINT NOT NULL DEFAULT 0;
