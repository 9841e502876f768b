"""What an installed package promises before any model is used."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def modules_after(code, *, cwd=None, path=None):
    """Names of the modules loaded in a fresh interpreter after ``code``."""
    script = f"import sys\n{f'sys.path.insert(0, {path!r})' if path else ''}\n{code}\n"
    script += "import json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=cwd
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_loads_neither_torch_nor_napari():
    loaded = modules_after("import napari_maskinversion")
    assert not loaded & {"torch", "napari", "open_clip", "qtpy"}


def test_labels_files_results_and_the_command_line_load_no_torch():
    parts = (
        "cli.app",
        "results.results",
        "language.labels.vocabulary",
        "language.labels.presets",
        "language.ranking.uncertainty",
    )
    code = "".join(f"import napari_maskinversion.{part}\n" for part in parts)
    code += "from napari_maskinversion.language.labels.presets import presets; presets()"
    assert not modules_after(code) & {"torch", "open_clip"}


def test_reviewing_loads_torch_only_to_learn():
    loaded = modules_after(
        "import napari_maskinversion.review.review, napari_maskinversion.review.queue\n"
        "import napari_maskinversion.learning.classifier"
    )
    assert "torch" not in loaded


PUBLIC = {
    "Classifier",
    *("load_model", "list_models", "wrap_open_clip", "MaskInverter", "InversionConfig"),
    *("InversionResult", "Regions", "list_methods", "region_embedder", "label_regions"),
    *("read_image", "read_regions", "Results", "export", "errors", "imagine", "Imagined"),
    "Library",
    *("find_regions", "Found"),
}


def test_the_public_names_are_the_documented_ones():
    import napari_maskinversion

    assert set(napari_maskinversion.__all__) == PUBLIC
    for name in PUBLIC:
        assert name in dir(napari_maskinversion)
        assert getattr(napari_maskinversion, name).__name__.endswith(name)
        assert getattr(napari_maskinversion, name).__doc__
    with pytest.raises(AttributeError, match="no_such_name"):
        napari_maskinversion.no_such_name  # noqa: B018


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    subprocess.run([*command, str(ROOT)], check=True, capture_output=True)
    return next(out.glob("*.whl"))


@pytest.mark.full
def test_the_wheel_holds_what_a_user_needs(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    package = "napari_maskinversion/"
    for part in (
        "napari.yaml",
        "py.typed",
        "demo_model/weights/open_clip_model.safetensors",
        "demo_model/weights/open_clip_config.json",
        "demo_model/weights/MODEL_CARD.md",
        "language/labels/preset_lists/coco.yaml",
        "sample_data/scenes.json",
        "sample_data/ATTRIBUTION.md",
    ):
        assert package + part in names
    of_the_repository = ("tests/", "benchmarks/", "research/")
    assert not any(name.startswith(of_the_repository) for name in names)
    # What only benchmarks/ and research/ use is not installed.
    files = {Path(name).name for name in names}
    assert not files & {"sprites.py", "tuning.py", "plans.py", "compare_weights.py"}


@pytest.mark.full
def test_a_wheel_installed_elsewhere_finds_manifest_samples_and_weights(wheel, tmp_path):
    # Unpacked without its dependencies, away from the source tree: what a wheel's user has.
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    script = (
        "import napari_maskinversion as n, npe2\n"
        "assert n.__file__.startswith(site), n.__file__\n"
        "m = npe2.PluginManifest.from_distribution('napari-maskinversion')\n"
        "keys = [s.key for s in m.contributions.sample_data]\n"
        "from napari_maskinversion.images.sample_scenes import load_scene, scene_names\n"
        "from napari_maskinversion.language.labels.presets import presets\n"
        "assert len(presets()) == 9\n"
        "scenes = [load_scene(name) for name in scene_names()]\n"
        "assert scenes and scenes[0].image.ndim == 3\n"
        "print(n.load_model('demo').encode_text(['a dog']).shape, len(keys), len(scenes))\n"
    )
    script = f"import sys; site = {str(tmp_path / 'site')!r}; sys.path.insert(0, site)\n" + script
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(1, ")
