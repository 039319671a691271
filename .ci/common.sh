# Sourced by the scripts beside it: where things are, and how they speak.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# Result of a script: 0 done, 1 failed, 2 cannot run as asked (a bad argument, missing packages).
say() { printf '%s\n' "$*"; }
fail() {
  printf '%s\n' "$*" >&2
  exit 1
}
refuse() {
  printf '%s\n' "$*" >&2
  exit 2
}

preset=${PRESET:-release}
case $preset in
release | ci) build=build ;;
dev | lint | asan | tsan | clang) build=build/$preset ;;
*) refuse "PRESET: got '$preset', accepted: release, dev, lint, asan, tsan, clang, ci" ;;
esac

# Open MPI asks twice before it starts anything for root, whom containers run as.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# Processors that this process may use.
jobs=${JOBS:-$(nproc)}

# Builds all that is installed.
build_installed() {
  local target
  for target in batchless batchless_analysis batchless_hwmodel batchless_training python; do
    .ci/build --quiet "$target"
  done
  python3 experiments/manual.py --out "$build/manual" --program "$build/bin/batchless"
}

# The C++ files of the checkout, new ones that are not committed yet included.
cxx_files() {
  find . \( -path './.*' -o -path ./build \) -prune \
    -o -type f \( -name '*.h' -o -name '*.cpp' \) -printf '%P\n' | LC_ALL=C sort
}

# fingerprint [TEXT...]: one hash over every file of the checkout, this build directory's settings,
# when each program in it was built, and TEXT. What ran well with a fingerprint need not run again
# with the same one.
fingerprint() {
  {
    printf '%s\n' "$@"
    find . \( -path ./build -o -path ./.git -o -name __pycache__ \) -prune \
      -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
    cat "$build/CMakeCache.txt"
    find "$build/bin" -type f -printf '%p %T@\n' | LC_ALL=C sort
  } | sha256sum
}

# is_current NAME FINGERPRINT / mark_current NAME FINGERPRINT: whether NAME last ran well with it.
is_current() {
  [ -z "${FORCE:-}" ] && [ "$(cat "$build/passed/$1" 2>/dev/null)" = "$2" ]
}
mark_current() {
  mkdir -p "$build/passed"
  printf '%s\n' "$2" >"$build/passed/$1"
}

# Where the newest commits begin: at what the main branch of the origin has, else ten commits ago.
newest_commits() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-list --max-count=11 HEAD | tail -n 1)
  fi
  printf '%s\n' "$base"
}
