#!/bin/sh
# The drain rate as the backlog grows (G9): so many changes of as many SKUs, pushed by `tallyd run --once` to a sandbox.
#
#   benches/drain.sh [CHANGES...]
#
# TALLYD names the program (default: target/release/tallyd), WORK where the databases go (default: a new directory under
# /tmp), PORT where the sandbox listens, SKUS how many products it has (20000). Needs sqlite3 and curl. The sandbox
# knows no limits here, and the mirror is fresh when the push begins: what is timed is reading, planning, claiming,
# sending and recording.
#
# Printed for each number (default 500 5000 20000): milliseconds of the push, changes a second, calls, and CPU of the
# program in all. Only ratios of one run count; the CPU a change is the steadier figure on a busy machine.
set -eu
work=${WORK:-$(mktemp -d /tmp/drain.XXXXXX)}
port=${PORT:-8791}
skus=${SKUS:-20000}
sandbox_options="--warehouses 1"
export TALLYD_LOG__LEVEL=warn
rm -f "$work"/shop.db*
. "${0%/*}/shop.sh"
warehouse=$(sqlite3 -readonly "$work/shop.db" 'SELECT min(id) FROM warehouse')

drain() { # CHANGES
    rm -f "$work"/t.db*
    "$tallyd" --config "$work/t.toml" sku import "$work/skus.csv" >/dev/null
    "$tallyd" --config "$work/t.toml" run --once >/dev/null
    sqlite3 -readonly -csv "$work/shop.db" \
        "SELECT 'sku', 'warehouse_id', 'quantity' UNION ALL
         SELECT * FROM (SELECT sku, $warehouse, 1000 + $1 % 97 * 7 + id % 7 FROM product ORDER BY id LIMIT $1)" >"$work/changes-$1.csv"
    "$tallyd" --config "$work/t.toml" quantity import "$work/changes-$1.csv" >/dev/null
    /usr/bin/time -o "$work/time" -f '%U %S' "$tallyd" --config "$work/t.toml" run --once >/dev/null || true
    sqlite3 -readonly -separator ' ' "$work/t.db" \
        "SELECT ended_ms - started_ms, (SELECT count(*) FROM exchange e WHERE e.run_id = run.id)
         FROM run WHERE job = 'push' ORDER BY id DESC LIMIT 1" |
        cat - "$work/time" | tr '\n' ' ' | awk -v n="$1" \
        '{ printf "%6d changes  %7d ms  %6.0f a second  %4d calls  %6.2f s of CPU\n", n, $1, n * 1000 / $1, $2, $3 + $4 }'
}

for changes in ${*:-500 5000 $skus}; do drain "$changes"; done
