-- Text is ordered by its bytes, as in SQLite.
CREATE TABLE resources (
    id TEXT COLLATE "C" PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    href TEXT COLLATE "C" NOT NULL,
    owner_id TEXT COLLATE "C",
    owner_kind TEXT COLLATE "C",
    owner_href TEXT COLLATE "C",
    -- The resource at the top of the tree that this one is in: itself, where it has no owner.
    root_id TEXT COLLATE "C" NOT NULL,
    spec JSONB NOT NULL,
    -- The spec as it was written, where JSONB keeps something else: numbers such as -0.0 and 1e16, and zero characters.
    spec_exact TEXT COLLATE "C",
    labels JSONB NOT NULL,
    tenancy TEXT COLLATE "C" NOT NULL,
    generation BIGINT NOT NULL,
    created_time TIMESTAMPTZ NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    updated_time TIMESTAMPTZ NOT NULL,
    updated_by TEXT COLLATE "C" NOT NULL,
    deleted_time TIMESTAMPTZ,
    deleted_by TEXT COLLATE "C"
);

CREATE UNIQUE INDEX resources_names ON resources (kind, COALESCE(owner_id, ''), tenancy, name) WHERE deleted_time IS NULL;
CREATE INDEX resources_newest ON resources (kind, created_time, id);
CREATE INDEX resources_by_name ON resources (kind, name, id);
CREATE INDEX resources_children ON resources (owner_id, kind, created_time, id);
CREATE INDEX resources_trees ON resources (root_id);

-- What belongs to a resource goes with it in the statement that removes it. There are no foreign keys: each would look at
-- the resource again for every row of a report.
CREATE TABLE resource_labels (
    resource_id TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (resource_id, key)
);

CREATE INDEX resource_labels_values ON resource_labels (key, value, resource_id);

CREATE TABLE resource_conditions (
    resource_id TEXT COLLATE "C" NOT NULL,
    position SMALLINT NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C",
    message TEXT COLLATE "C",
    observed_generation BIGINT NOT NULL,
    created_time TIMESTAMPTZ NOT NULL,
    last_updated_time TIMESTAMPTZ NOT NULL,
    last_transition_time TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (resource_id, type)
) WITH (fillfactor = 70);

CREATE INDEX resource_conditions_statuses ON resource_conditions (type, status, resource_id);

-- Apart from resources, so that a status report updates a narrow row. The row of a root is the lock of its tree.
CREATE TABLE resource_revisions (
    resource_id TEXT COLLATE "C" PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    created_revision BIGINT NOT NULL,
    revision BIGINT NOT NULL
);

CREATE INDEX resource_revisions_feed ON resource_revisions (revision);

-- Without an observed_generation, the adapter was heard and none of its reports was accepted.
CREATE TABLE adapter_statuses (
    resource_id TEXT COLLATE "C" NOT NULL,
    adapter TEXT COLLATE "C" NOT NULL,
    last_report_time TIMESTAMPTZ NOT NULL,
    observed_generation BIGINT,
    conditions JSON,
    data JSON,
    metadata JSON,
    created_time TIMESTAMPTZ,
    last_updated_time TIMESTAMPTZ,
    PRIMARY KEY (resource_id, adapter)
) WITH (fillfactor = 70);

CREATE TABLE status_log (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resource_id TEXT COLLATE "C" NOT NULL,
    received_time TIMESTAMPTZ NOT NULL,
    entry JSON NOT NULL
);

CREATE INDEX status_log_of_resources ON status_log (resource_id, id);
CREATE INDEX status_log_ages ON status_log (received_time);

-- What removed resources last were.
CREATE TABLE tombstones (
    revision BIGINT PRIMARY KEY,
    resource_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    resource JSON NOT NULL
);

-- The latest revision, and the highest of a tombstone that is forgotten.
CREATE TABLE feed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    revision BIGINT NOT NULL,
    horizon BIGINT NOT NULL
) WITH (fillfactor = 10);

INSERT INTO feed (one, revision, horizon) VALUES (1, 0, 0);
