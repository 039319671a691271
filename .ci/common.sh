# Sourced by the scripts beside it: where things are, and how they speak.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

preset=${PRESET:-release}
case $preset in
release | ci) build=build ;;
dev | asan | tsan) build=build/$preset ;;
*)
  echo "PRESET: '$preset' is not one of release, dev, asan, tsan, ci" >&2
  exit 2
  ;;
esac

# Processors that this process may use.
jobs=${JOBS:-$(nproc)}

say() { printf '%s\n' "$*"; }
fail() {
  printf '%s\n' "$*" >&2
  exit 1
}
