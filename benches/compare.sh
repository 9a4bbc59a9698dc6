#!/bin/sh
# Ingest beside its limit: the raw baseline and `tallyd run --once` read the same catalogue from the same stub, in turn.
#
#   benches/compare.sh DIR [SIZE...]
#
# DIR holds the baseline's programs `stub` and `ingest`; it is hand-written Rust on prepared statements and is no part
# of this package. TALLYD names the program (default: target/release/tallyd), ROUNDS how often (default 3), WORK where
# the databases go (default: a new directory under /tmp). Needs /usr/bin/time and curl.
#
# A round for each size (default 10000 100000): both on an empty file, again with nothing changed, again with 1 % changed.
# Printed: wall seconds, CPU seconds, peak MiB of each, and the ratio raw/tallyd of the wall times (1: as fast as raw).
# Only ratios of one run count; take the median of the rounds.
set -eu
dir=$1; shift
tallyd=${TALLYD:-target/release/tallyd}
work=${WORK:-$(mktemp -d /tmp/compare.XXXXXX)}
port=${PORT:-8790}
# As long as real ones are: each answer is searched for them. The stub looks at none.
key=0123456789abcdef0123456789abcdef
mkdir -p "$work"

"$dir/stub" --port "$port" --ttl 3600 & stub=$!
trap 'kill $stub' EXIT
sleep 0.2

configure() { # SIZE
    rm -rf "$work/t"; mkdir -p "$work/t"
    {
        printf '[service]\nbase_url = "http://127.0.0.1:%s"\n' "$port"
        printf '[limits]\ncalls_per_minute = 1000000\n[database]\npath = "%s/t/t.db"\n' "$work"
        printf '[log]\nlevel = "warn"\n[backup]\ndirectory = "%s/t"\n' "$work"
        printf '[jobs.balances]\nskus_per_call = 1000\n'
        for job in order_lines shipments warehouses suppliers storefronts listing_templates kit_components \
            top_selling business_health work_queue settle prune backup; do
            printf '[jobs.%s]\nenabled = false\n' $job
        done
    } >"$work/t.toml"
    awk -v n="$1" 'BEGIN { print "sku"; for (i = 1; i <= n; i++) printf "SKU-%07d\n", i }' >"$work/skus.csv"
    "$tallyd" --config "$work/t.toml" sku import "$work/skus.csv" >/dev/null
}

timed() { # NAME COMMAND...: "wall cpu peakMiB"
    name=$1; shift
    /usr/bin/time -o "$work/$name" -f '%e %U %S %M' "$@" >"$work/$name.out" 2>&1 || { cat "$work/$name.out" >&2; exit 1; }
    awk '{ printf "%.2f %.2f %.0f", $1, $2 + $3, $4 / 1024 }' "$work/$name"
}

both() { # SIZE STEP
    raw=$(timed raw "$dir/ingest" --db "$work/raw.db" --n "$1" --port "$port")
    ours=$(timed ours env TALLYD_SERVICE__INTEGRATION_KEY="$key" TALLYD_SERVICE__GATEWAY_KEY="$key" \
        "$tallyd" --config "$work/t.toml" run --once)
    echo "$1 $2 $raw $ours" | awk '{ printf "%8d %-10s raw %6.2f s %6.2f cpu %4d MiB   tallyd %6.2f s %6.2f cpu %4d MiB   of raw %.2f, cpu %.2f x\n",
        $1, $2, $3, $4, $5, $6, $7, $8, $3 / $6, $7 / ($4 + 0.001) }'
}

round() { # SIZE
    rm -f "$work"/raw.db*
    configure "$1"
    curl -s -X POST "http://127.0.0.1:$port/_epoch/0" >/dev/null
    both "$1" first
    both "$1" unchanged
    curl -s -X POST "http://127.0.0.1:$port/_epoch/1" >/dev/null
    both "$1" 1%
}

for size in ${*:-10000 100000}; do
    for _ in $(seq "${ROUNDS:-3}"); do round "$size"; done
done
