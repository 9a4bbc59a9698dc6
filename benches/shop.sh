# What the benches beside a sandbox begin with; they read this file with `.`.
#
# It starts a sandbox in $work with $skus SKUs, without orders and limits, and writes a configuration for it in which only
# balances and push run. Arguments are options of the sandbox. TALLYD names the program, WORK where the databases go,
# PORT where the sandbox listens.
tallyd=${TALLYD:-target/release/tallyd}
mkdir -p "$work"
export TALLYD_SERVICE__INTEGRATION_KEY=bench-integration-key TALLYD_SERVICE__GATEWAY_KEY=bench-gateway-key
"$tallyd" sandbox --data "$work/shop.db" --listen "127.0.0.1:$port" --skus "$skus" --orders 0 --calls-per-minute 0 \
    --concurrency 0 --integration-key "$TALLYD_SERVICE__INTEGRATION_KEY" --gateway-key "$TALLYD_SERVICE__GATEWAY_KEY" \
    $sandbox_options >"$work/sandbox.out" 2>&1 & sandbox=$!
trap 'kill $sandbox' EXIT
until curl -sf "http://127.0.0.1:$port/_sandbox/calls" >/dev/null; do sleep 0.1; done
{
    printf '[service]\nbase_url = "http://127.0.0.1:%s"\n[limits]\ncalls_per_minute = 1000000\n' "$port"
    printf '[database]\npath = "%s/t.db"\n[backup]\ndirectory = "%s"\n' "$work" "$work"
    printf '[jobs.balances]\nskus_per_call = 1000\nschedule = "0 0 0 1 1 *"\n'
    for job in order_lines shipments warehouses suppliers storefronts listing_templates kit_components \
        top_selling business_health work_queue settle prune backup; do
        printf '[jobs.%s]\nenabled = false\n' $job
    done
} >"$work/t.toml"
sqlite3 -readonly "$work/shop.db" "SELECT 'sku' UNION ALL SELECT sku FROM product" >"$work/skus.csv"
