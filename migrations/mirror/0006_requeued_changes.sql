-- A running push takes in the changes that became pending again: one an operator retried or released, one
-- whose call turned out to have had no effect. The index holds only these, because an insertion is no transition.

CREATE INDEX change_transition_to_pending ON change_transition (position) WHERE state = 'pending';
