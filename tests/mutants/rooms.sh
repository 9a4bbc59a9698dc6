#!/usr/bin/env bash
# Measures the unit tests of the four pure rooms with cargo-mutants: each operator, constant result and match arm of
# src/reconcile, src/outbox, src/limiter and src/schedule is changed, one at a time, and a test has to notice.
#
#   tests/mutants/rooms.sh [--dir DIR] [ROOM…]
#
# The whole package takes a minute to build, so it is not built: the rooms and the nouns they stand on are copied into a
# small crate of their own in DIR (default: a new temporary directory), where a mutant costs seconds. That this is
# possible is the point of the rooms being pure. What only a test of another room catches counts as missed here;
# docs/mutants.md says which those are. Nothing is written into this tree. Needs `cargo install cargo-mutants`.
#
# Each mutant meets the tests of its room first, without the simulations of days; what they miss meets all tests.
# The answer is in DIR/ROOM/mutants.out: {caught,missed,timeout,unviable}.txt. Exits with 1 when one was missed.
set -euo pipefail
cd "$(dirname "$0")/../.."

scratch=""
if [[ ${1:-} == --dir ]]; then
    scratch=$2
    shift 2
fi
scratch=$(realpath -m "${scratch:-$(mktemp -d)}")
rooms=(reconcile outbox limiter schedule)
wanted=("${@:-${rooms[@]}}")

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

# The tests that know a room: what a wish may say is used by the decisions too.
tests_of() {
    case $1 in
        outbox) echo outbox:: reconcile:: ;;
        *) echo "$1::" ;;
    esac
}

# In place: a copy for each would build the dependencies anew. A mutant that loops is given up after a while.
mutants() {
    local room=$1
    shift
    nice cargo mutants --in-place --timeout 60 --file "src/$room/**" --output "$room" "$@"
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

echo "the rooms are in $scratch" >&2
cd "$scratch"
all_missed=0
for room in "${wanted[@]}"; do
    rm -rf "$room"
    # shellcheck disable=SC2046
    mutants "$room" -- --lib -- $(tests_of "$room") --skip endurance --skip simulation || true
    [[ -s $room/mutants.out/missed.txt ]] && { mutants "$room" --iterate -- --lib || true; }
    caught=$(cat "$room"/mutants.out*/caught.txt "$room"/mutants.out*/timeout.txt | sort -u | wc -l)
    missed=$(wc -l < "$room/mutants.out/missed.txt")
    all_missed=$((all_missed + missed))
    echo "$room: $caught of $((caught + missed)) noticed"
done
[[ $all_missed == 0 ]]
