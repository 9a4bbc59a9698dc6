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
tallyd=${TALLYD:-target/release/tallyd}
work=${WORK:-$(mktemp -d /tmp/drain.XXXXXX)}
port=${PORT:-8791}
skus=${SKUS:-20000}
mkdir -p "$work"
export TALLYD_SERVICE__INTEGRATION_KEY=bench-integration-key TALLYD_SERVICE__GATEWAY_KEY=bench-gateway-key

rm -f "$work"/shop.db*
"$tallyd" sandbox --data "$work/shop.db" --listen "127.0.0.1:$port" --skus "$skus" --orders 0 --warehouses 1 \
    --calls-per-minute 0 --concurrency 0 --integration-key "$TALLYD_SERVICE__INTEGRATION_KEY" \
    --gateway-key "$TALLYD_SERVICE__GATEWAY_KEY" >"$work/sandbox.out" 2>&1 & sandbox=$!
trap 'kill $sandbox' EXIT
until curl -sf "http://127.0.0.1:$port/_sandbox/calls" >/dev/null; do sleep 0.1; done

{
    printf '[service]\nbase_url = "http://127.0.0.1:%s"\n[limits]\ncalls_per_minute = 1000000\n' "$port"
    printf '[database]\npath = "%s/t.db"\n[log]\nlevel = "warn"\n[backup]\ndirectory = "%s"\n' "$work" "$work"
    printf '[jobs.balances]\nskus_per_call = 1000\n'
    for job in order_lines shipments warehouses suppliers storefronts listing_templates kit_components \
        top_selling business_health work_queue settle prune backup; do
        printf '[jobs.%s]\nenabled = false\n' $job
    done
} >"$work/t.toml"
warehouse=$(sqlite3 -readonly "$work/shop.db" 'SELECT min(id) FROM warehouse')

drain() { # CHANGES
    rm -f "$work"/t.db*
    sqlite3 -readonly "$work/shop.db" "SELECT 'sku' UNION ALL SELECT sku FROM product" >"$work/skus.csv"
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
