#!/usr/bin/env bash
# All attacks in full: every way to damage every kind of file several times, other examples each
# time, and 20 kills of each kind of work. NAPARI_MASKINVERSION_FUZZ=N makes N rounds (default 5).
# Arguments go to pytest.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup_env.sh"
cd "$root"
setup_env all,test,dev
export NAPARI_MASKINVERSION_FUZZ="${NAPARI_MASKINVERSION_FUZZ:-5}" OMP_NUM_THREADS=1
exec "$bin/python" -m pytest tests/fuzz tests/kill "$@"
