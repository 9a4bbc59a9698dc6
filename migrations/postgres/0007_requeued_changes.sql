-- The changes that became pending again; migrations/mirror/0006_requeued_changes.sql describes the index.

CREATE INDEX change_transition_to_pending ON change_transition (position) WHERE state = 'pending';
