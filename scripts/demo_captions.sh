#!/usr/bin/env bash
# Train the bundled model's caption decoder again, after its weights have changed: weights, card, figures.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${NAPARI_MASKINVERSION_DATA:?must name the folder of the real images, which are measured too}"
exec "${PYTHON:-.venv/bin/python}" -m napari_maskinversion rebuild-demo-captions \
    --json benchmarks/results/generated-captions.json "$@"
