-- Times are microseconds since 1970, and JSON is text.
CREATE TABLE resources (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    href TEXT NOT NULL,
    owner_id TEXT,
    owner_kind TEXT,
    owner_href TEXT,
    -- The resource at the top of the tree that this one is in: itself, where it has no owner.
    root_id TEXT NOT NULL,
    spec TEXT NOT NULL,
    labels TEXT NOT NULL,
    tenancy TEXT NOT NULL,
    generation INTEGER NOT NULL,
    created_time INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    updated_time INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    deleted_time INTEGER,
    deleted_by TEXT
) STRICT;

CREATE UNIQUE INDEX resources_names ON resources (kind, COALESCE(owner_id, ''), tenancy, name) WHERE deleted_time IS NULL;
CREATE INDEX resources_newest ON resources (kind, created_time, id);
CREATE INDEX resources_by_name ON resources (kind, name, id);
CREATE INDEX resources_children ON resources (owner_id, kind, created_time, id);
CREATE INDEX resources_trees ON resources (root_id);

CREATE TABLE resource_labels (
    resource_id TEXT NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (resource_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX resource_labels_values ON resource_labels (key, value, resource_id);

CREATE TABLE resource_conditions (
    resource_id TEXT NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    type TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    message TEXT,
    observed_generation INTEGER NOT NULL,
    created_time INTEGER NOT NULL,
    last_updated_time INTEGER NOT NULL,
    last_transition_time INTEGER NOT NULL,
    PRIMARY KEY (resource_id, type)
) STRICT, WITHOUT ROWID;

CREATE INDEX resource_conditions_statuses ON resource_conditions (type, status, resource_id);

-- Apart from resources, so that a status report updates a narrow row.
CREATE TABLE resource_revisions (
    resource_id TEXT NOT NULL PRIMARY KEY REFERENCES resources (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    created_revision INTEGER NOT NULL,
    revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX resource_revisions_feed ON resource_revisions (revision);

-- Without an observed_generation, the adapter was heard and none of its reports was accepted.
CREATE TABLE adapter_statuses (
    resource_id TEXT NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
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

CREATE TABLE status_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    resource_id TEXT NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
    received_time INTEGER NOT NULL,
    entry TEXT NOT NULL
) STRICT;

CREATE INDEX status_log_of_resources ON status_log (resource_id, id);
CREATE INDEX status_log_ages ON status_log (received_time);

-- What removed resources last were.
CREATE TABLE tombstones (
    revision INTEGER NOT NULL PRIMARY KEY,
    resource_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    resource TEXT NOT NULL
) STRICT;

-- The latest revision, and the highest of a tombstone that is forgotten.
CREATE TABLE feed (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    revision INTEGER NOT NULL,
    horizon INTEGER NOT NULL
) STRICT;

INSERT INTO feed (one, revision, horizon) VALUES (1, 0, 0);
