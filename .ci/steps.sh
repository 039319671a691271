# Sourced after common.sh by the scripts that run many steps: one line about each, a time limit for each,
# one more try of what failed, a count at the end.

passed=0
failed=()
flaky=0
steps=()
step_log=$(mktemp)
trap 'rm -f "$step_log"' EXIT
# What a machine's load cannot explain: other bits, a crash, a sanitizer's report.
unforgivable='digest|sha256|golden|\bbits?\b|weights|SIG(SEGV|ABRT|BUS|FPE|ILL)|segmentation|\*\*\*Exception|aborted|sanitizer|runtime error:'

attempt() {
  local limit=$1
  shift
  # No pipe: whatever a step leaves running would hold it open.
  timeout --kill-after=30 "$limit" "$@" > >(tee "$step_log") 2>&1 && return 0
  local status=$?
  sleep 1 # tee may still be at the last lines
  [ "$status" != 124 ] || say "the limit of $limit s is over"
  return 1
}

# Whether a failure may be the machine's: nothing unforgivable in what was said. Of the tests' log only
# what failed counts, for other tests have digests in their names.
forgivable() {
  ! grep -vE '( +Passed|\*\*\*Skipped) +[0-9.]+ sec|\(Skipped\)$|^ *Start +[0-9]+: | \.\.\. ok$|^test: |^build: |^\[[0-9]+/' "$1" |
    grep -qiE "$unforgivable"
}

# step LIMIT NAME COMMAND...: runs it for LIMIT seconds at most, and once more, alone, where it failed.
step() {
  local limit=$1 name=$2 start=$SECONDS load verdict=passed
  shift 2
  say "== $name"
  if ! attempt "$limit" "$@"; then
    load=$(cut -d ' ' -f 1-3 /proc/loadavg)
    verdict=FAILED
    if [ "$flaky" -lt 2 ] && forgivable "$step_log"; then
      local first
      first=$(tail -n 60 "$step_log")
      say "== $name: failed, once more (load $load)"
      if JOBS=1 attempt "$limit" "$@"; then
        verdict=passed
        flaky=$((flaky + 1))
        say "FLAKY: $name failed and then passed; load then: $load; its first output:"
        printf '%s\n' "$first" | sed 's/^/  | /'
      fi
    else
      say "== $name: not tried again"
    fi
  fi
  say "== $name: $verdict in $((SECONDS - start)) s"
  steps+=("$(printf '%6d s  %-6s  %s' $((SECONDS - start)) "$verdict" "$name")")
  if [ "$verdict" = passed ]; then passed=$((passed + 1)); else failed+=("$name"); fi
}

# The blocks of commands of a document, each a step of LIMIT seconds.
document() {
  local limit=$1 file=$2 line
  for line in $(.ci/doc-commands "$file"); do
    step "$limit" "$file:$line" bash -euxo pipefail -c "$(.ci/doc-commands "$file" "$line")"
  done
}

# One table, and the count in ctest's words, with every single test in place of the step that runs them.
summarize() {
  local tests=0 tests_failed=0 total bad name
  if [ -f "$build/ctest.log" ]; then
    read -r tests_failed tests < <(sed -n 's/.* \([0-9]*\) tests\{0,1\} failed out of \([0-9]*\)$/\1 \2/p' "$build/ctest.log") || true
  fi
  total=$((passed + ${#failed[@]} + ${tests:-0}))
  bad=${#failed[@]}
  [ "$bad" -eq 0 ] || bad=$((bad + ${tests_failed:-0}))
  say ""
  printf '%s\n' "${steps[@]}"
  for name in "${failed[@]}"; do say "FAILED: $name"; done
  say "$((total > 0 ? 100 * (total - bad) / total : 0))% tests passed, $bad tests failed out of $total"
  [ "$bad" -eq 0 ]
}
