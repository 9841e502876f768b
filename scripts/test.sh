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
"${run[@]}" "$bin/python" -m pytest "$@"
