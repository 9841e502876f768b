#!/usr/bin/env bash
# Set everything up in .venv, then run every check: see scripts/tests.py for --quick and --all.
# Other arguments go to pytest.
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
case "${1:-}" in
  "" | --quick | --all | --keep | --workers) exec "$bin/python" scripts/tests.py "$@" ;;
esac
run=()
if [ "$(uname -s)" = Linux ]; then
  # Always a virtual display, so that no window flickers over the user's own.
  run=(xvfb-run -a -n 99 -s "-screen 0 1920x1200x24")
fi
exec "${run[@]}" "$bin/python" -m pytest --durations=15 "$@"
