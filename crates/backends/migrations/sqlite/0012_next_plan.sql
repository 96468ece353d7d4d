-- The plan that a subscription's next period is of, when it is another one.

ALTER TABLE subscription ADD COLUMN next_plan TEXT;
ALTER TABLE subscription ADD COLUMN next_cadence TEXT;
