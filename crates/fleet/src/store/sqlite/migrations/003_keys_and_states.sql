-- What searches compare with one value: labels, the statuses of conditions, and the values of a spec. The order of the columns is that
-- of lists. The migration fills it from the resources.
CREATE TABLE resource_keys (
    field TEXT NOT NULL,
    value TEXT NOT NULL,
    kind TEXT NOT NULL,
    created_time INTEGER NOT NULL,
    resource_id TEXT NOT NULL,
    PRIMARY KEY (field, value, kind, created_time, resource_id)
) STRICT, WITHOUT ROWID;

-- What a status report changes. It is apart from resources, so that a report writes one narrow row.
CREATE TABLE resource_states (
    resource_id TEXT NOT NULL PRIMARY KEY,
    created_revision INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    -- How many entries the status log of the resource has had.
    logged INTEGER NOT NULL,
    -- JSON: type, status, reason, message, observed generation, and the times of creation, last update and last transition.
    conditions TEXT NOT NULL
) STRICT;

INSERT INTO resource_states (resource_id, created_revision, revision, logged, conditions)
SELECT v.resource_id, v.created_revision, v.revision,
    (SELECT count(*) FROM status_log l WHERE l.resource_id = v.resource_id),
    (SELECT json_group_array(json_array(c.type, c.status, c.reason, c.message, c.observed_generation, c.created_time,
        c.last_updated_time, c.last_transition_time) ORDER BY c.position, c.type)
        FROM resource_conditions c WHERE c.resource_id = v.resource_id)
FROM resource_revisions v;

CREATE INDEX resource_states_feed ON resource_states (revision);

-- Without foreign keys: each would look at the resource again for every row of a report. What belongs to a resource is removed with it.
CREATE TABLE new_adapter_statuses (
    resource_id TEXT NOT NULL,
    adapter TEXT NOT NULL,
    last_report_time INTEGER NOT NULL,
    observed_generation INTEGER,
    conditions TEXT,
    data TEXT,
    metadata TEXT,
    created_time INTEGER,
    last_updated_time INTEGER,
    PRIMARY KEY (resource_id, adapter)
) STRICT, WITHOUT ROWID;

INSERT INTO new_adapter_statuses SELECT * FROM adapter_statuses;

-- By resource, so that an entry is written to one place, and a long log is cut at its end.
CREATE TABLE new_status_log (
    resource_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    received_time INTEGER NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (resource_id, number)
) STRICT, WITHOUT ROWID;

INSERT INTO new_status_log
SELECT resource_id, row_number() OVER (PARTITION BY resource_id ORDER BY id), received_time, entry FROM status_log;

DROP TABLE resource_labels;
DROP TABLE resource_conditions;
DROP TABLE resource_revisions;
DROP TABLE adapter_statuses;
DROP TABLE status_log;
ALTER TABLE new_adapter_statuses RENAME TO adapter_statuses;
ALTER TABLE new_status_log RENAME TO status_log;
CREATE INDEX status_log_ages ON status_log (received_time);
