#!/usr/bin/env bash
# Set everything up in .venv, then run every check; extra arguments go to pytest.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup_env.sh"
cd "$root"
setup_env all,test,dev
setup_display
if [ -z "${NAPARI_MASKINVERSION_DATA:-}" ] && [ -d "$root/../shared/data" ]; then
  NAPARI_MASKINVERSION_DATA="$(cd "$root/../shared/data" && pwd)"
  export NAPARI_MASKINVERSION_DATA
fi
"$bin/ruff" check .
"$bin/ruff" format --check .
"$bin/mypy"
"$bin/lint-imports"
run=()
if [ "$(uname -s)" = Linux ]; then
  # Always a virtual display, so that no window flickers over the user's own.
  run=(xvfb-run -a -s "-screen 0 1920x1200x24")
fi
tests() { "${run[@]}" "$bin/python" -m pytest "$@"; }
if [ $# -gt 0 ]; then
  tests "$@"
  exit
fi
# Those of the panel beside the others; their output comes one after the other.
output="$(mktemp)"
trap 'rm -f "$output"' EXIT
tests tests/napari -p no:cacheprovider >"$output" 2>&1 &
panel=$!
sleep 3 # two virtual displays must not pick one number
failed=0
tests --ignore=tests/napari || failed=$?
wait "$panel" || failed=$?
cat "$output"
exit "$failed"
