-- The guards refuse with states of the standard, so that a program that catches an integrity error catches theirs.
-- Drivers know a state of our own only as their most general error.
--
-- | state | refusal |
-- |---|---|
-- | 23505 unique_violation | the key names another change |
-- | 23503 foreign_key_violation | a key without its change |
-- | 22P02 invalid_text_representation | the body is no JSON that the server stores |
-- | 42501 insufficient_privilege | what only tallyd may do: an edit, a deletion, other columns |
-- | 23514 check_violation | all other inserts |

CREATE OR REPLACE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING MESSAGE = TG_ARGV[0],
        ERRCODE = CASE TG_OP WHEN 'INSERT' THEN '23514' ELSE '42501' END;
END
$$;

-- The other guards keep their bodies. Each sentence gets its state; a sentence that is not listed has 23514.
DO $$
DECLARE
    guard OID;
    definition TEXT;
    sentence TEXT;
    state TEXT;
BEGIN
    FOR guard IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = CAST(current_schema() AS REGNAMESPACE) AND p.prosrc LIKE '%TLY01%'
    LOOP
        definition := pg_get_functiondef(guard);
        FOR sentence, state IN
            VALUES ('this key already names another change', '23505'),
                   ('a key exists only with its change', '23503'),
                   ('the body has a character', '22P02'),
                   ('the body is no JSON text', '22P02'),
                   ('tallyd assigns the id of a change', '42501'),
                   ('a change begins pending', '42501'),
                   ('a change is never deleted', '42501'),
                   ('finished changes are pruned by tallyd only', '42501')
        LOOP
            definition := regexp_replace(definition, '(''' || sentence || '[^;]*)TLY01', '\1' || state);
        END LOOP;
        EXECUTE replace(definition, 'TLY01', '23514');
    END LOOP;
END
$$;
