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
run=()
if [ "$(uname -s)" = Linux ]; then
  # Always a virtual display, so that no window flickers over the user's own.
  run=(xvfb-run -a -s "-screen 0 1920x1200x24")
fi
tests() { "${run[@]}" "$bin/python" -m pytest --durations=25 "$@"; }
if [ $# -gt 0 ]; then
  tests "$@"
  exit
fi
# Most tests of the panel beside the others, so that both take about as long; their output comes one
# after the other.
panel_ignores=() others_ignore=()
for part in tests/_napari/*/ tests/_napari/test_*.py; do
  case "$part" in
    */explore/ | */sam/) panel_ignores+=("--ignore=${part%/}") ;;
    *) others_ignore+=("--ignore=${part%/}") ;;
  esac
done
output="$(mktemp)"
trap 'rm -f "$output"' EXIT
tests tests/_napari "${panel_ignores[@]}" -p no:cacheprovider >"$output" 2>&1 &
panel=$!
sleep 3 # two virtual displays must not pick one number
failed=0
tests "${others_ignore[@]}" || failed=$?
wait "$panel" || failed=$?
cat "$output"
exit "$failed"
