#!/usr/bin/env bash
# Fetch the photographs that the demo model's training lays behind its drawings, beside those of
# scikit-image: `napari-maskinversion rebuild-demo --photographs FOLDER` (research/demo_model). Needs Debian or Ubuntu.
# None is share-alike: nine of lomiri-wallpapers (CC BY 4.0, one CC0), eight panoramas of
# Blender's studio lights (CC0) and, of the folder of real images, those of COCO that are CC BY 2.0
# and show nothing that the model knows as a drawing.
set -euo pipefail
: "${NAPARI_MASKINVERSION_DATA:?must name the folder of the real images}"
if [ $# -ne 1 ]; then
  echo "Usage: bash scripts/demo_photographs.sh FOLDER" >&2
  exit 2
fi
folder="$1"
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
python="${PYTHON:-python3}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download lomiri-wallpapers-16.04 blender-data
for package in *.deb; do
  dpkg-deb -x "$package" unpacked
done
for name in aitzgorri_by_Aitzol_Berasategi life_by_Aitzol_Berasategi \
  picosdeeuropa_by_Aitzol_Berasategi Picture_0B_by_freespace Picture_1A_by_freespace \
  seeding_by_Clements_Engelhardt sunset_by_Aitzol_Berasategi umang_by_Abhishek_Mudgal \
  Wine_by_Jakkub_Mede; do
  cp "unpacked/usr/share/backgrounds/$name.jpg" "$folder/"
done
for number in 000030 000073 000165 000285 000436 000508 000785 000872 001000 001993 005001 006012 006818 \
  007574 007991; do
  cp "$NAPARI_MASKINVERSION_DATA/coco-panoptic/images/000000$number.jpg" "$folder/"
done
"$python" -m pip install --quiet --target exr OpenEXR numpy pillow
PYTHONPATH=exr "$python" - unpacked/usr/share/blender/datafiles/studiolights/world "$folder" <<'PYTHON'
import sys
from pathlib import Path

import numpy as np
import OpenEXR
from PIL import Image

source, folder = map(Path, sys.argv[1:])
for file in sorted(source.glob("*.exr")):
    light = OpenEXR.File(str(file)).channels()["RGB"].pixels[..., :3].astype(np.float64)
    # a photograph's exposure: the brightest twentieth is white
    shown = (np.clip(light / np.percentile(light, 95), 0, 1) ** (1 / 2.2) * 255).round()
    Image.fromarray(shown.astype(np.uint8)).save(folder / f"{file.stem}.png")
PYTHON
