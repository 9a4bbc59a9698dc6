-- The hosts that stood by, and those that led beside one, each with the time by the server's clock at which it was last
-- seen. One that is away is missed for a day.
CREATE TABLE host_seen (
    host_name TEXT COLLATE "C" PRIMARY KEY,
    seen_ms BIGINT NOT NULL
);
