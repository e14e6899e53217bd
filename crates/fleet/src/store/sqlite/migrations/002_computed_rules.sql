-- The rules by which the conditions of all resources were computed.
CREATE TABLE computed_rules (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    rules TEXT NOT NULL
) STRICT;
