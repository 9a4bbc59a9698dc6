-- Texts that another program may not insert. Without these triggers a CHECK would refuse some of them by its name
-- alone. PostgreSQL stores no U+0000, and both engines refuse the same texts.

-- With a known key, `outbox_insert_guard` has the sentence. An escaped backslash before `u0000` is no U+0000.
CREATE TRIGGER outbox_text_guard BEFORE INSERT ON outbox
BEGIN
    SELECT CASE
        WHEN NEW.key = ''
            THEN RAISE(ABORT, 'a key must not be empty: choose a key (outbox_key_text)')
        WHEN instr(NEW.key, char(0)) > 0 OR instr(NEW.kind, char(0)) > 0 OR instr(NEW.body, char(0)) > 0
            THEN RAISE(ABORT, 'key, kind and body have no character U+0000: remove it')
        WHEN EXISTS (SELECT 1 FROM change_key WHERE key = NEW.key)
            THEN NULL
        WHEN instr(replace(NEW.body, '\\', ''), '\u0000') > 0
            THEN RAISE(ABORT, 'the body has a character \u0000, which tallyd does not store: remove it (outbox_body_json)')
        WHEN NOT json_valid(NEW.body)
            THEN RAISE(ABORT, 'the body is no JSON text: correct it (outbox_body_json)')
    END;
END;

CREATE TRIGGER tracked_sku_limit BEFORE INSERT ON tracked_sku
BEGIN
    SELECT CASE
        WHEN instr(NEW.sku, char(0)) > 0
            THEN RAISE(ABORT, 'a SKU has no character U+0000: remove it')
        WHEN length(CAST(NEW.sku AS BLOB)) > 1000
            THEN RAISE(ABORT, 'a SKU has at most 1000 bytes: no product of the platform has this one')
    END;
END;
