-- Closing an account removes its answers, which are found by their account here.

CREATE INDEX response_account ON response (account_id);
