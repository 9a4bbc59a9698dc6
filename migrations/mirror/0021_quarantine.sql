-- Entries that always fail: a SKU, an order, a shipment that a call cannot hold without failing as a whole. Each is tried
-- again by itself, with growing delays; everything else goes on without it.

CREATE TABLE quarantine (
    operation TEXT NOT NULL,     -- the operation that fails for it, as the interface lists it
    subject TEXT NOT NULL,       -- the SKU, order id or shipment id
    since_ms INTEGER NOT NULL,
    tried_ms INTEGER NOT NULL,   -- when it was last sent alone
    failures INTEGER NOT NULL CONSTRAINT quarantine_failures CHECK (failures > 0),
    why TEXT NOT NULL,           -- the platform's words
    PRIMARY KEY (operation, subject)
) STRICT, WITHOUT ROWID;
