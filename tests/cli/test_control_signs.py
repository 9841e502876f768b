"""What files say is printed as text: no control sign of theirs reaches the terminal."""

import json
from dataclasses import replace

import pytest
import skimage.io

from napari_maskinversion.cli.console import ProgressBar, echo, print_table, say
from napari_maskinversion.results.export.archive import open_archive, save_archive
from napari_maskinversion.results.printing import print_results
from napari_maskinversion.results.results import Results
from tests.results.export.bundles import make_bundle
from tests.scenes import label_image, picture

RED = "red\x1b[31m\x9b5m\x07"
SHOWN = r"red\x1b[31m\x9b5m\x07"
SIGNS = ("\x1b", "\x9b", "\x07")


def rows(text):
    print_table(["a"], [[text]], text)


def note(text):
    with ProgressBar() as bar:
        bar.say_note(text)


@pytest.mark.parametrize("show", [say, echo, rows, note])
def test_texts_are_printed_with_their_signs_spelled(capfd, show):
    show(RED)
    said = "".join(capfd.readouterr())
    assert SHOWN in said
    assert not any(sign in said for sign in SIGNS)


def test_results_are_printed_with_their_signs_spelled(capfd):
    results = make_bundle().results
    regions = [replace(one, source_label=RED) for one in results.regions]
    print_results(Results(results.info, tuple(regions)))
    said = capfd.readouterr().out
    assert not any(sign in said for sign in SIGNS)
    assert r"\x1b" in said


LABELS = {
    "labels.txt": f"car\n{RED}\n",
    "labels.csv": f"label,synonyms\ncar,{RED}\n",
    "labels.yaml": json.dumps({"labels": ["car", {"label": "dog", "group": RED}]}),
    "templates.yaml": json.dumps({"labels": ["car"], "templates": [f"a photo {RED} of {{}}"]}),
}


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("command", ["show", "convert"])
def test_labels_with_control_signs_are_refused(call, tmp_path, name, command):
    file = tmp_path / name
    file.write_text(LABELS[name], encoding="utf-8")
    more = (tmp_path / "out.yaml",) if command == "convert" else ()
    code, out, err = call("labels", command, file, *more)
    assert (code, "cannot be shown" in err) == (2, True), err
    assert not any(sign in out + err for sign in SIGNS)
    assert not (tmp_path / "out.yaml").exists()


def test_an_archive_has_no_control_signs(fine, tmp_path):
    bundle = make_bundle()
    one, *others = bundle.results.regions
    one = replace(one, source_label=RED, source_id=RED, generated_caption=RED)
    results = replace(bundle.results, regions=(one, *others))
    columns = {**bundle.columns, f"my {RED}": [RED, "a\nb", "", ""]}
    save_archive(replace(bundle, results=results, columns=columns), tmp_path / "r.npz")
    again = open_archive(tmp_path / "r.npz")
    first = again.results.regions[0]
    plain = "red\ufffd[31m\ufffd5m\ufffd"
    assert [first.source_label, first.source_id, first.generated_caption] == [plain] * 3
    assert again.columns[f"my {plain}"] == [plain, "a\nb", "", ""]
    out = tmp_path / "out"
    fine("export", tmp_path / "r.npz", "--out", out, "--format", "csv,json,coco")
    for file in out.iterdir():
        assert not any(sign in file.read_text("utf-8") for sign in SIGNS)


def test_names_in_a_file_of_regions_are_spelled_in_messages(call, tmp_path):
    skimage.io.imsave(tmp_path / "image.png", picture(), check_contrast=False)
    skimage.io.imsave(tmp_path / f"masks{RED}.png", label_image(2, 20, 20), check_contrast=False)
    files = tmp_path / "image.png", tmp_path / f"masks{RED}.png"
    code, _, err = call("run", *files, "--labels", "car", "--out", tmp_path / "out")
    assert (code, SHOWN in err) == (2, True), err
    assert not any(sign in err for sign in SIGNS)
