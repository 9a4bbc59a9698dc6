#!/bin/sh
# What people wait for, beside a peer on the same work in one run: a list of all stock beside the `sqlite3` shell, a replay
# beside the load that it replays, and the answers of commands that people type.
#
#   benches/people.sh [SKUS]
#
# The mirror is read from a sandbox (default: 300000 SKUs in three warehouses): all of it, and once more unchanged. The
# lists are read without a pending change, and again with one for each third SKU (`+changes`).
# TALLYD names the program, ROUNDS how often each list is read (default 5), WORK where the databases go, PORT where the
# sandbox listens. Needs sqlite3, curl and /usr/bin/time. Only ratios of one run count; take the median of the rounds.
set -eu
skus=${1:-300000}
work=${WORK:-$(mktemp -d /tmp/people.XXXXXX)}
port=${PORT:-8793}
sandbox_options="--warehouses 3"
export TALLYD_LOG__LEVEL=warn
. "${0%/*}/shop.sh"
"$tallyd" --config "$work/t.toml" sku import "$work/skus.csv" >/dev/null

timed() { # COMMAND...: "seconds KiB"
    /usr/bin/time -o "$work/time" -f '%e %M' "$@" >"$work/out" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
    cat "$work/time"
}

beside() { # NAME PEER "seconds KiB" "seconds KiB"
    echo "$1,$2,$3,$4" | awk -F '[, ]' '{ printf "%-19s %7.2f s %4d MiB  %s %.2f s: %.2f x\n", $1, $3, $4 / 1024, $2, $5, $3 / ($5 + 0.001) }'
}

ours() {
    timed "$tallyd" --config "$work/t.toml" "$@"
}

first=$(ours run --once)
again=$(ours run --once)
load=$(echo "$first $again" | awk '{ print $1 + $3, $2 }')
stock() { # SUFFIX
    shell=$(timed sqlite3 -readonly "$work/t.db" "SELECT * FROM stock ORDER BY sku, warehouse_id")
    beside "stock$1" sqlite3 "$(ours stock)" "$shell"
    beside "stock--json$1" sqlite3 "$(ours stock --json)" "$shell"
}
for _ in $(seq "${ROUNDS:-5}"); do
    stock ""
    rm -f "$work"/replay.db*
    beside replay load "$(ours replay --into "$work/replay.db")" "$load"
done
stat -c "$skus %s" "$work/t.db" | awk '{ printf "database            %d bytes a SKU\n", $2 / $1 }'
sqlite3 "$work/t.db" "INSERT INTO outbox (key, kind, body)
    SELECT 'bench:' || p.id, 'quantity.adjust', json_object('sku', p.sku, 'warehouse_id', min(b.warehouse_id), 'delta', 1)
    FROM product p JOIN balance b ON b.product = p.id WHERE p.id % 3 = 0 GROUP BY p.id"
for _ in $(seq "${ROUNDS:-5}"); do
    stock +changes
done
sku=$(sed -n 2p "$work/skus.csv")
for command in "explain $sku" plan "outbox list"; do
    # Unquoted: a command and its argument.
    ours $command | awk -v name="$command" '{ printf "%-19s %7.2f s %4d MiB\n", name, $1, $2 / 1024 }'
done
