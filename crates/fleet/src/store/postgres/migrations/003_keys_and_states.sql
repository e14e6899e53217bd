-- What searches compare with one value: labels, the statuses of conditions, and the values of a spec. The order of the columns is that
-- of lists. The migration fills it from the resources.
CREATE TABLE resource_keys (
    field TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    created_time TIMESTAMPTZ NOT NULL,
    resource_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (field, value, kind, created_time, resource_id)
);

-- What a status report changes. It is apart from resources, so that a report writes one narrow row. The row of a root is the lock
-- of its tree.
CREATE TABLE resource_states (
    resource_id TEXT COLLATE "C" PRIMARY KEY,
    created_revision BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    -- How many entries the status log of the resource has had.
    logged BIGINT NOT NULL,
    -- JSON: type, status, reason, message, observed generation, and the times of creation, last update and last transition.
    conditions TEXT COLLATE "C" NOT NULL
) WITH (fillfactor = 70, toast_tuple_target = 8160);

INSERT INTO resource_states (resource_id, created_revision, revision, logged, conditions)
SELECT v.resource_id, v.created_revision, v.revision,
    (SELECT count(*) FROM status_log l WHERE l.resource_id = v.resource_id),
    COALESCE((SELECT json_agg(json_build_array(c.type, c.status, c.reason, c.message, c.observed_generation,
        (extract(epoch FROM c.created_time) * 1000000)::bigint, (extract(epoch FROM c.last_updated_time) * 1000000)::bigint,
        (extract(epoch FROM c.last_transition_time) * 1000000)::bigint) ORDER BY c.position, c.type)
        FROM resource_conditions c WHERE c.resource_id = v.resource_id), '[]')::text
FROM resource_revisions v;

CREATE INDEX resource_states_feed ON resource_states (revision);

-- An entry has its number in the log of its resource, so that a long log is cut at its end.
CREATE TABLE new_status_log (
    resource_id TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    received_time TIMESTAMPTZ NOT NULL,
    entry JSON NOT NULL,
    PRIMARY KEY (resource_id, number)
);

INSERT INTO new_status_log
SELECT resource_id, row_number() OVER (PARTITION BY resource_id ORDER BY id), received_time, entry FROM status_log;

DROP TABLE resource_labels;
DROP TABLE resource_conditions;
DROP TABLE resource_revisions;
DROP TABLE status_log;
ALTER TABLE new_status_log RENAME TO status_log;
ALTER INDEX new_status_log_pkey RENAME TO status_log_pkey;
CREATE INDEX status_log_ages ON status_log (received_time);
