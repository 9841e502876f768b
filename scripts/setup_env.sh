# Sourced by demo.sh and test.sh: a virtual environment with the package, and a display.
# Usage: setup_env EXTRA,... [FOLDER]   (extras of pyproject.toml; .venv unless named)

# Compiled modules are kept, whatever the image says: without them each process of the tests
# compiles 8,000 modules anew (23 s on two cores).
unset PYTHONDONTWRITEBYTECODE

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { printf '%s\n' "$*" >&2; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3.14 python3 python; do
    if [ -n "$candidate" ] && "$candidate" -c \
      'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
      printf '%s' "$candidate"
      return
    fi
  done
  say "Python 3.11 to 3.14 is needed and none was found; set PYTHON=/path/to/python."
  return 1
}

setup_env() {
  local extras="$1" venv="$root/${2:-.venv}" python stamp
  if [ -x "$venv/Scripts/python.exe" ]; then bin="$venv/Scripts"; else bin="$venv/bin"; fi
  if [ ! -x "$bin/python" ] && [ ! -x "$bin/python.exe" ]; then
    python="$(find_python)"
    say "Making $venv with $("$python" --version) ..."
    "$python" -m venv "$venv"
    if [ -x "$venv/Scripts/python.exe" ]; then bin="$venv/Scripts"; fi
  fi
  # Installed again only when what decides about it has changed.
  stamp="$venv/.installed-$extras"
  if [ ! -e "$stamp" ] || [ "$root/pyproject.toml" -nt "$stamp" ]; then
    say "Installing the package and what it needs (several GB with PyTorch; minutes the first time) ..."
    "$bin/python" -m pip --version >/dev/null 2>&1 || "$bin/python" -m ensurepip >/dev/null
    # uv installs the same packages as pip, in a fraction of the time.
    if "$bin/python" -m pip install --quiet --disable-pip-version-check uv 2>/dev/null; then
      "$bin/python" -m uv pip install --quiet --python "$bin/python" -e "$root[$extras]"
    else
      "$bin/python" -m pip install --quiet --disable-pip-version-check -e "$root[$extras]"
    fi
    touch "$stamp"
  fi
}

display_packages="xvfb xauth libgl1 libegl1 libopengl0 libxkbcommon-x11-0 libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0 libxcb-render-util0 libxcb-shape0 libxcb-xinerama0 libdbus-1-3"

# A virtual display and the libraries Qt needs, on Debian and its kin where we may install them.
setup_display() {
  [ "$(uname -s)" = Linux ] || return 0
  local missing="" package
  if command -v dpkg-query >/dev/null; then
    for package in $display_packages; do
      dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' \
        || missing="$missing $package"
    done
    [ -z "$missing" ] && return 0
    local sudo=""
    if [ "$(id -u)" != 0 ]; then
      if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo="sudo -n"; else
        say "For a virtual display, please run: sudo apt-get install$missing"
        command -v xvfb-run >/dev/null && return 0 || return 1
      fi
    fi
    say "Installing$missing ..."
    # Package lists first only if needed: they may be there already.
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null 2>&1 || {
      $sudo apt-get update -qq >/dev/null
      $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
    }
  elif ! command -v xvfb-run >/dev/null; then
    say "Please install xvfb (with xvfb-run), OpenGL and the xcb libraries Qt needs"
    say "(Fedora: xorg-x11-server-Xvfb mesa-libGL xcb-util-*)."
    return 1
  fi
}
