-- The rules by which the conditions of all resources were computed.
CREATE TABLE computed_rules (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    rules TEXT NOT NULL
);

-- Names are looked up by one key: on tables without statistics, the planner would prefer an index on the kind alone, which
-- has all resources.
DROP INDEX resources_names;
CREATE UNIQUE INDEX resources_names
    ON resources ((kind || '/' || COALESCE(owner_id, '') || '/' || tenancy || '/' || name)) WHERE deleted_time IS NULL;
