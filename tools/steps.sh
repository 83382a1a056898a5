# Usage: source tools/steps.sh, after tools/setup.sh
#
# Runs the steps of a script and counts their tests. When the script ends, it prints the number of
# skipped tests with their reasons, and as its last line `N passed, N failed`.

passed=0
failed=0
scratch=$(mktemp -d)
: >"$scratch/skipped"

# A function that cleans up when the script ends.
at_the_end=:

finish() {
    local status=$?
    "$at_the_end"
    say_skipped
    rm -rf "$scratch"
    if ((status != 0 && failed == 0)); then
        failed=1
    fi
    echo "$passed passed, $failed failed"
    exit "$status"
}
trap finish EXIT

# The number of skipped tests, and of those for each reason.
say_skipped() {
    awk '{ count = $1; sub(/^[0-9]+ /, ""); sums[$0] += count; sum += count }
        END {
            printf "%d skipped%s\n", sum, (sum > 0 ? ":" : "")
            fflush()
            for (reason in sums) printf "  %d %s\n", sums[reason], reason | "sort -k1,1nr -k2"
        }' "$scratch/skipped"
}

# step TITLE FUNCTION [ARGUMENT...]: runs a step. It counts as one test, or as the number of tests
# that the function writes into the first line of $scratch/count. Further lines there are numbers of
# skipped tests, each with its reason.
step() {
    local title=$1 log=$scratch/log
    shift
    say "$title"
    rm -f "$scratch/count"
    # In a subshell, because `set -e` has no effect in a function that a condition calls.
    set +e
    (set -e; "$@") </dev/null >"$log" 2>&1
    local status=$?
    set -e
    if ((status != 0)); then
        cat "$log"
        failed=1
        say "FAILED: $title"
        exit 1
    fi
    local count=1
    if [[ -f $scratch/count ]]; then
        count=$(head -n 1 "$scratch/count")
        tail -n +2 "$scratch/count" >>"$scratch/skipped"
    fi
    passed=$((passed + count))
    say "  passed: $count"
}

# count_rust [NAME]: counts the tests in the output of cargo, which goes on to standard output. What
# runs beside the steps counts in a file of its own name.
count_rust() {
    local cargo=$scratch/cargo${1:+-$1}
    tee "$cargo"
    {
        awk '/^test result: ok/ { sum += $4 } END { print sum + 0 }' "$cargo"
        sed -nE 's/^test .* \.\.\. ignored(, (.*))?$/1 \2/p' "$cargo"
    } >"$scratch/count${1:+-$1}"
}
