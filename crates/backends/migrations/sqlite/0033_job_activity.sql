-- What a process does for a job that it has leased. A death of the process counts against the job only if it worked on it, and
-- gives the job up only if it worked on nothing else.

ALTER TABLE job ADD COLUMN activity TEXT NOT NULL DEFAULT 'working';
