-- The name of a record that could not be read: its SKU, or the id of its order, line or shipment, as far as that much could
-- be read. An operator looks for it at the service by that name. It is no fact: a replay comes to the same without it.

CREATE TABLE parked_subject (
    exchange_id INTEGER NOT NULL,
    record INTEGER NOT NULL,
    subject TEXT NOT NULL,
    PRIMARY KEY (exchange_id, record)
) STRICT, WITHOUT ROWID;
