#!/usr/bin/env bash
# Plants each bug of tests/mutants/*.patch in a copy of the tree and sees whether the tests notice.
#
#   tests/mutants/run.sh [--dir DIR] [NAME…]
#
# NAME picks patches by the beginning of their names (`07`). DIR (default target/mutants) holds one copy and one target
# directory, which stay warm for the next time. For each patch the tests on its `Killed-by:` line run first, each as
# SUITE/TEST, where SUITE is `lib`, a binary of tests/, or a module of tests/it or tests/program, also if it is ignored
# otherwise; only when all of these pass, all tests do. A bug that makes the tests hang for ten minutes counts as killed.
#
# Exits with 1 when a bug survives, no longer applies or no longer builds, or when the tests fail without any bug. The
# copy lacks tests/mutants.rs, which would notice every patch by itself and say nothing about the tests.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

root=$PWD dir=$PWD/target/mutants
if [[ ${1:-} == --dir ]]; then
    dir=$(realpath -m "$2")
    shift 2
fi
wanted=("${@:-}")
tree=$dir/tree log=$dir/last.log
export CARGO_TARGET_DIR=$dir/target
# The copy is no part of any repository, also where it lies within one.
export GIT_CEILING_DIRECTORIES=$dir

# Every file is as new as the copy: what an interrupted run built from a planted bug is not taken for fresh.
copy() {
    rm -rf "$tree"
    mkdir -p "$tree"
    git ls-files --cached --others --exclude-standard -z |
        grep -zv -e '^tests/mutants' | tar --null --files-from=- --create | tar --extract --touch --directory "$tree"
}

# The arguments of cargo for a binary. The library's own has the suites of tests/it.
binary() {
    [[ $1 == lib || $1 == it ]] && echo --lib || echo "--test $1"
}

# Each SUITE/TEST given as BINARY/TEST: most suites are modules of one of two binaries.
in_binaries() {
    local name suite bin
    for name in "$@"; do
        suite=${name%%/*}
        for bin in it program; do
            [[ -e $tree/tests/$bin/$suite.rs || -e $tree/tests/$bin/$suite/mod.rs ]] && suite=$bin && break
        done
        echo "$suite/${name#*/}"
    done
}

killers() {
    sed -n 's/^Killed-by: //p' "$1" | tr ' ' '\n'
}

# Runs the tests named, SUITE/TEST each; 0: all passed, 1: one failed, 2: it does not build.
run_named() {
    local bin names all
    all=$(in_binaries "$@")
    for bin in $(cut -d/ -f1 <<< "$all" | sort -u); do
        names=$(sed -n "s,^$bin/,,p" <<< "$all")
        # shellcheck disable=SC2046,SC2086
        cargo test --quiet $(binary "$bin") --no-run > "$log" 2>&1 || return 2
        # shellcheck disable=SC2046,SC2086
        timeout 600 cargo test $(binary "$bin") -- --include-ignored $names > "$log" 2>&1 || return 1
    done
}

run_all() {
    cargo test --quiet --no-run > "$log" 2>&1 || return 2
    timeout 3600 cargo test > "$log" 2>&1 || return 1
}

# The test that failed, as the last run has it.
culprit() {
    sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$log" | head -n 1 | grep . || echo 'no test by name: it hung or was ended'
}

judge() {
    local patch=$1 named
    mapfile -t named < <(killers "$patch")
    git apply "$patch" || { echo 'does not apply' && return 1; }
    run_named "${named[@]}"
    local came=$?
    if [[ $came == 0 ]]; then
        run_all
        came=$?
        [[ $came == 1 ]] && printf 'not by the tests it names, but '
    fi
    git apply --reverse "$patch"
    case $came in
        0) echo SURVIVED ;;
        1) echo "killed by $(culprit)" ;;
        *) echo 'does not build' ;;
    esac
    [[ $came == 1 ]]
}

patches=()
for patch in "$root"/tests/mutants/*.patch; do
    for name in "${wanted[@]}"; do
        [[ $(basename "$patch") == "$name"* ]] && patches+=("$patch") && break
    done
done

copy
cd "$tree" || exit 2
mapfile -t all < <(for patch in "${patches[@]}"; do killers "$patch"; done | sort -u)
echo "without a bug: ${#all[@]} test(s)"
if ! run_named "${all[@]}"; then
    tail -n 40 "$log"
    exit 1
fi

survived=0
for patch in "${patches[@]}"; do
    SECONDS=0
    verdict=$(judge "$patch") || survived=$((survived + 1))
    printf '%-34s %s (%d s)\n' "$(basename "$patch" .patch)" "$verdict" "$SECONDS"
done
echo "$((${#patches[@]} - survived)) of ${#patches[@]} killed"
[[ $survived == 0 ]]
