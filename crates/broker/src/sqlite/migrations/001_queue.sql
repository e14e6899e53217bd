-- Times are milliseconds since 1970. Triggers keep the counters, so that every process and tool that changes rows keeps
-- them right.

CREATE TABLE subscription (
    id INTEGER PRIMARY KEY,
    topic TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Events that are not acknowledged, and the bytes of their bodies.
    depth INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    dead_letters INTEGER NOT NULL DEFAULT 0,
    -- Events and dead letters that were dropped at the limits of the subscription.
    dropped_events INTEGER NOT NULL DEFAULT 0,
    dropped_dead_letters INTEGER NOT NULL DEFAULT 0,
    UNIQUE (topic, name)
) STRICT;

-- The body of an event is stored once for all subscriptions, until the last one has acknowledged it.
CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL,
    body BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    published_at INTEGER NOT NULL
) STRICT;

CREATE TABLE delivery (
    subscription INTEGER NOT NULL REFERENCES subscription (id),
    event INTEGER NOT NULL REFERENCES event (id),
    bytes INTEGER NOT NULL,
    -- From when on it can be claimed. A claim moves this into the future by the visibility timeout.
    visible_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    -- 1 from a claim until its answer.
    claimed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (subscription, event)
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_by_visibility ON delivery (subscription, visible_at, event);
CREATE INDEX delivery_by_event ON delivery (event);

CREATE TABLE dead_letter (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    subscription INTEGER NOT NULL REFERENCES subscription (id),
    body BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    reason TEXT NOT NULL,
    published_at INTEGER NOT NULL,
    moved_at INTEGER NOT NULL
) STRICT;

CREATE INDEX dead_letter_by_subscription ON dead_letter (subscription, id);

CREATE TABLE totals (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    events INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO totals (one, events, bytes) VALUES (1, 0, 0);

CREATE TRIGGER event_added AFTER INSERT ON event BEGIN
    UPDATE totals SET events = events + 1, bytes = bytes + NEW.bytes;
END;

CREATE TRIGGER event_removed AFTER DELETE ON event BEGIN
    UPDATE totals SET events = events - 1, bytes = bytes - OLD.bytes;
END;

CREATE TRIGGER delivery_added AFTER INSERT ON delivery BEGIN
    UPDATE subscription SET depth = depth + 1, bytes = bytes + NEW.bytes WHERE id = NEW.subscription;
END;

CREATE TRIGGER delivery_removed AFTER DELETE ON delivery BEGIN
    UPDATE subscription SET depth = depth - 1, bytes = bytes - OLD.bytes WHERE id = OLD.subscription;
    DELETE FROM event WHERE id = OLD.event AND NOT EXISTS (SELECT 1 FROM delivery WHERE event = OLD.event);
END;

CREATE TRIGGER dead_letter_added AFTER INSERT ON dead_letter BEGIN
    UPDATE subscription SET dead_letters = dead_letters + 1 WHERE id = NEW.subscription;
END;

CREATE TRIGGER dead_letter_removed AFTER DELETE ON dead_letter BEGIN
    UPDATE subscription SET dead_letters = dead_letters - 1 WHERE id = OLD.subscription;
END;
