-- Delivery of changes that are no quantity; migrations/mirror/0004_delivery.sql describes its tables.

CREATE TABLE delivery (
    change_id BIGINT PRIMARY KEY REFERENCES outbox (id) ON DELETE CASCADE,
    kind TEXT COLLATE "C" NOT NULL CONSTRAINT delivery_kind CHECK (kind IN (
        'shipment.create', 'tracking.submit', 'product.create', 'product.update', 'warehouse.create',
        'listing_template.create')),
    ordering_key TEXT COLLATE "C" NOT NULL,
    evidence TEXT COLLATE "C" NOT NULL CONSTRAINT delivery_evidence CHECK (json_valid(evidence)),
    created_id BIGINT
        CONSTRAINT delivery_created CHECK (created_id IS NULL OR kind IN (
            'shipment.create', 'product.create', 'warehouse.create', 'listing_template.create'))
);

CREATE TABLE in_doubt_check (
    change_id BIGINT NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    exchange_id BIGINT NOT NULL,
    sent_ms BIGINT NOT NULL,
    shown TEXT COLLATE "C" NOT NULL CONSTRAINT in_doubt_check_shown CHECK (json_valid(shown)),
    PRIMARY KEY (change_id, exchange_id)
);

CREATE TABLE adoption (
    change_id BIGINT PRIMARY KEY REFERENCES outbox (id) ON DELETE CASCADE,
    shipment_id BIGINT NOT NULL CONSTRAINT adoption_shipment CHECK (shipment_id > 0)
);

CREATE TABLE quarantine (
    operation TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    since_ms BIGINT NOT NULL,
    tried_ms BIGINT NOT NULL,
    failures BIGINT NOT NULL CONSTRAINT quarantine_failures CHECK (failures > 0),
    why TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (operation, subject)
);

CREATE TABLE suspected_absence (
    subject TEXT COLLATE "C" PRIMARY KEY,
    what TEXT COLLATE "C" NOT NULL,
    first_ms BIGINT,
    first_moment BIGINT,
    last_ms BIGINT NOT NULL,
    last_moment BIGINT NOT NULL,
    checks BIGINT NOT NULL CONSTRAINT suspected_absence_checks CHECK (checks > 0),
    CONSTRAINT suspected_absence_first CHECK ((first_ms IS NULL) = (first_moment IS NULL))
);

CREATE INDEX delivery_by_created ON delivery (kind, created_id) WHERE created_id IS NOT NULL;
