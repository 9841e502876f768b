#!/usr/bin/env bash
# Set everything up in .venv, then run every check; extra arguments go to pytest.
# NAPARI_MASKINVERSION_QT=pyside6 takes PySide6 instead of PyQt6, in .venv-pyside6.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup_env.sh"
cd "$root"
case "${NAPARI_MASKINVERSION_QT:-pyqt6}" in
  pyqt6) setup_env all,test,dev,docs ;;
  pyside6) setup_env pyside6,test,dev,docs .venv-pyside6 ;;
  *) say "NAPARI_MASKINVERSION_QT is pyqt6 or pyside6."; exit 2 ;;
esac
export QT_API="${NAPARI_MASKINVERSION_QT:-pyqt6}"
setup_display
if [ -z "${NAPARI_MASKINVERSION_DATA:-}" ] && [ -d "$root/../shared/data" ]; then
  NAPARI_MASKINVERSION_DATA="$(cd "$root/../shared/data" && pwd)"
  export NAPARI_MASKINVERSION_DATA
fi
"$bin/ruff" check .
"$bin/ruff" format --check .
"$bin/mypy"
"$bin/lint-imports"
tests() {
  local run=() display="$1"
  shift
  if [ "$(uname -s)" = Linux ]; then
    # Always a virtual display, so that no window flickers over the user's own.
    run=(xvfb-run -a -n "$display" -s "-screen 0 1920x1200x24")
  fi
  "${run[@]}" "$bin/python" -m pytest --durations=15 "$@"
}
panel_tests() {
  # A process for each folder: what windows leave behind makes later ones slow.
  local part failed=0
  for part in tests/_napari/[a-z]*/ tests/_napari/test_*.py; do
    tests 300 "$part" -p no:cacheprovider || failed=$?
  done
  return "$failed"
}
if [ $# -gt 0 ]; then
  tests 99 "$@"
  exit
fi
# Those of the panel beside the others; their output comes one after the other.
output="$(mktemp)"
trap 'rm -f "$output"' EXIT
panel_tests >"$output" 2>&1 &
panel=$!
failed=0
tests 99 --ignore=tests/_napari || failed=$?
wait "$panel" || failed=$?
cat "$output"
exit "$failed"
