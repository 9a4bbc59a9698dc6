#!/usr/bin/env bash
# Measures the unit tests of the four pure rooms with cargo-mutants: each operator, constant result and match arm of
# src/reconcile, src/outbox, src/limiter and src/schedule is changed, one at a time, and a test has to notice.
#
#   tests/mutants/rooms.sh [DIR] [-- ARGUMENTS OF cargo mutants]
#
# The whole package takes a minute to build, so it is not built: the rooms and the nouns they stand on are copied into a
# small crate of their own in DIR (default: a new temporary directory), where a mutant costs seconds. That this is
# possible is the point of the rooms being pure. What a test of another room catches counts as missed here;
# docs/mutants.md says which those are. Nothing is written into this tree. Needs `cargo install cargo-mutants`.
#
# One room:   tests/mutants/rooms.sh /tmp/rooms -- --file 'src/limiter/**'
# The answer: DIR/mutants.out/{caught,missed,timeout,unviable}.txt; exits 2 when one was missed, as cargo-mutants does.
set -euo pipefail
cd "$(dirname "$0")/../.."

rooms=(reconcile outbox limiter schedule)
scratch=""
if [[ $# -gt 0 && $1 != -- ]]; then
    scratch=$1
    shift
fi
[[ ${1:-} == -- ]] && shift
scratch=${scratch:-$(mktemp -d)}

# Only the dependencies that the copied sources name, as Cargo.toml has them.
manifest() {
    printf '[package]\nname = "rooms"\nversion = "0.0.0"\nedition = "2024"\n'
    local line crate inside=no
    while IFS= read -r line; do
        case $line in
            '[dependencies]' | '[dev-dependencies]') inside=yes && printf '\n%s\n' "$line" ;;
            '['*) inside=no ;;
            [a-z]*)
                crate=${line%% *}
                if [[ $inside == yes ]] && grep -rqE "\b${crate//-/_}::" "$scratch/src"; then
                    printf '%s\n' "$line"
                fi
                ;;
        esac
    done < Cargo.toml
    printf '\n[profile.dev]\ndebug = false\n'
}

mkdir -p "$scratch/src"
for room in model "${rooms[@]}"; do
    rm -rf "${scratch:?}/src/$room"
    cp -r "src/$room" "$scratch/src/$room"
done
for room in model "${rooms[@]}"; do
    echo "pub mod $room;"
done > "$scratch/src/lib.rs"
manifest > "$scratch/Cargo.toml"
cp Cargo.lock "$scratch/Cargo.lock"

echo "the rooms are in $scratch; what becomes of each mutant is in $scratch/mutants.out" >&2
cd "$scratch"
# In place and one at a time: a copy each would build the dependencies anew. A mutant that loops is given up soon.
exec nice cargo mutants --in-place --jobs 1 --timeout 30 --exclude 'src/model/**' "$@"
