-- What answers lacked: an order, a shipment's item, a warehouse that a change names. One answer proves nothing; a second
-- one, minutes later and with the platform well, does.

CREATE TABLE lacking (
    subject TEXT PRIMARY KEY,     -- whose it is: 'wish 17', 'warehouse 9'
    what TEXT NOT NULL,           -- what was lacking, as a sentence
    first_ms INTEGER,             -- the first answer that lacked it with the platform well, if there is one yet
    first_moment INTEGER,         -- the same since boot
    last_ms INTEGER NOT NULL,     -- the last answer that lacked it
    last_moment INTEGER NOT NULL,
    looks INTEGER NOT NULL CONSTRAINT lacking_looks CHECK (looks > 0),
    CONSTRAINT lacking_first CHECK ((first_ms IS NULL) = (first_moment IS NULL))
) STRICT, WITHOUT ROWID;
