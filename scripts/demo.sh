#!/usr/bin/env bash
# Set everything up in .venv and show the plugin on a sample scene.
# Without a display: the same in a virtual one; files and a screenshot land in ./demo_output.
# --check writes them too where there is a display, prints what they hold, and fails if one is missing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup_env.sh"
setup_env all
if [ "$(uname -s)" = Linux ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
  setup_display
fi
exec "$bin/napari-maskinversion" demo "$@"
