-- Shipments and tracking are looked for while a backlog of counts goes; the index keeps that look from walking past it.
CREATE INDEX outbox_parcels ON outbox (priority DESC, id)
    WHERE state = 'pending' AND kind IN ('shipment.create', 'tracking.submit');
