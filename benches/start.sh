#!/bin/sh
# The start over a long journal: how long until `daemon.ready`, and how long `status` takes.
#
#   benches/start.sh [EXCHANGES] [SKUS]
#
# The mirror is read once from a sandbox; the journal is then filled up with rows by SQL (default: 1000000 exchanges,
# 10000 SKUs). TALLYD names the program, WORK where the databases go, PORT where the sandbox listens. Needs sqlite3 and
# curl. Run it twice with one WORK: the first start reads the file from the disk.
set -eu
exchanges=${1:-1000000}
skus=${2:-10000}
work=${WORK:-$(mktemp -d /tmp/start.XXXXXX)}
port=${PORT:-8792}
sandbox_options=
. "${0%/*}/shop.sh"
if [ ! -e "$work/t.db" ]; then
    "$tallyd" --config "$work/t.toml" sku import "$work/skus.csv" >/dev/null
    "$tallyd" --config "$work/t.toml" run --once >/dev/null
    # Two calls a second up to now, twenty a run, bodies shared with those that were made.
    sqlite3 "$work/t.db" "
        CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $exchanges)
            SELECT i, (SELECT position FROM journal_sequence) AS p, (SELECT max(id) FROM session) AS s,
                   (SELECT max(id) FROM run) AS r, unixepoch() * 1000 - 500 * ($exchanges - i) AS at FROM n;
        INSERT INTO run (id, session_id, job, trigger, started_ms, ended_ms, outcome)
            SELECT r + i / 20, s, 'balances', 'schedule', at, at + 9000, 'ok' FROM n WHERE i % 20 = 0;
        INSERT INTO exchange (id, run_id, session_id, operation, target, lane, sent_ms, sent_moment, ended, answered_ms,
                              answered_moment, verdict, status)
            SELECT p + 2 * i, r + 1 + (i - 1) / 20 % ($exchanges / 20), s, 'POST /api/product/getProductBalances', '/', 'poll',
                   at, 1, p + 2 * i + 1, at + 100, 1, 'accepted', 200 FROM n;
        UPDATE journal_sequence SET position = position + 2 * $exchanges + 2;"
fi

# The start reads as many calls back as the account allows in a minute: as packaged, not as the fill above.
sed -i 's/^calls_per_minute = .*/calls_per_minute = 120/' "$work/t.toml"

milliseconds() { awk '{ printf "%d", $1 * 1000 }' /proc/uptime; }

started=$(milliseconds)
"$tallyd" --config "$work/t.toml" run 2>"$work/log" & daemon=$!
until grep -q '"daemon.ready"' "$work/log"; do sleep 0.01; done
echo "ready after $(($(milliseconds) - started)) ms"
started=$(milliseconds)
"$tallyd" --config "$work/t.toml" status >/dev/null || true
echo "status after $(($(milliseconds) - started)) ms"
kill $daemon
wait $daemon || true
