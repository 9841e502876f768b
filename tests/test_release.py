"""What is published says the same everywhere: hub, package index, conda, citation, issue forms."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from napari_maskinversion.doctor.checks import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
README = (ROOT / PROJECT["readme"]).read_text("utf-8")


def read(name):
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_every_requirement_has_a_lower_bound():
    """Without one the oldest versions of all dependencies include the first ever published."""
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    typing = ("pandas-stubs", "types-")  # of the checks alone
    unbound = [one for group in groups for one in group if not re.search(r">=|!=", one)]
    assert [one for one in unbound if not one.startswith(typing)] == []


# -- napari hub and package index -----------------------------------------------------------------


def test_the_hub_lists_the_plugin_and_finds_what_it_shows():
    assert "Framework :: napari" in PROJECT["classifiers"]
    assert PROJECT["license"] == "BSD-3-Clause"  # an SPDX name
    assert PROJECT["requires-python"] == ">=3.11"
    assert PROJECT["authors"]
    assert len(PROJECT["description"]) <= 200
    assert {"Homepage", "Bug Tracker", "Documentation"} <= PROJECT["urls"].keys()
    assert list(PROJECT["entry-points"]["napari.manifest"]) == [PROJECT["name"]]
    assert not any("Private" in name or "License ::" in name for name in PROJECT["classifiers"])


def test_the_readme_begins_with_the_title_that_the_hub_drops():
    assert README.startswith("# ")
    assert len(re.findall(r"^# ", re.sub(r"```.*?```", "", README, flags=re.S), re.M)) == 1


def test_pictures_of_the_readme_show_outside_of_the_repository_too():
    images = re.findall(r"!\[[^]]*\]\(([^)\s]+)", README) + re.findall(
        r'<img[^>]*src="([^"]+)', README
    )
    assert images
    start = "https://raw.githubusercontent.com/napari-maskinversion/napari-maskinversion/main/"
    for image in images:
        assert image.startswith("https://")
        if image.startswith(start):
            assert (ROOT / image.removeprefix(start)).is_file(), image


# -- conda-forge ----------------------------------------------------------------------------------

# Where conda-forge has another name.
CONDA = {
    "torch": "pytorch",
    "huggingface-hub": "huggingface_hub",
    "open_clip_torch": "open-clip-torch",
    "napari": "napari-base",
    "dask": "dask-core",
    "matplotlib": "matplotlib-base",
    "openTSNE": "opentsne",
}


def test_the_conda_recipe_needs_what_the_package_declares():
    recipe = read("packaging/conda/recipe.yaml")
    declared = set()
    for text in PROJECT["dependencies"]:
        name, bounds = re.fullmatch(r"([\w.-]+)(.*)", text).groups()
        declared.add(f"{CONDA.get(name, name)} {bounds}")
    python, *needed = recipe["requirements"]["run"]
    assert set(needed) == declared
    assert python == "python >=${{ python_min }}"
    assert PROJECT["requires-python"] == f">={recipe['context']['python_min']}"


def test_the_conda_recipe_bounds_what_the_extras_need():
    recipe = read("packaging/conda/recipe.yaml")
    declared = set()
    for name in EXTRAS:
        for text in PROJECT["optional-dependencies"][name]:
            package, bounds = re.fullmatch(r"([\w.-]+)(.*)", text).groups()
            declared.add(f"{CONDA.get(package, package)} {bounds}")
    # A bound for spatialdata's sake would keep setuptools old for everybody.
    declared = {one for one in declared if not one.startswith("setuptools ")}
    assert set(recipe["requirements"]["run_constraints"]) == declared


def test_the_conda_recipe_builds_this_version_with_this_command():
    recipe = read("packaging/conda/recipe.yaml")
    assert recipe["context"]["version"] == PROJECT["version"]
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["homepage"] == PROJECT["urls"]["Homepage"]
    folder = ROOT / "packaging" / "conda" / recipe["source"]["path"]
    assert (folder / recipe["about"]["license_file"]).is_file()


# -- a release ------------------------------------------------------------------------------------


@pytest.fixture
def release(scripts, tmp_path):
    """Return a function that writes files that are ready but for what is named, and checks them."""
    check = scripts("check_release")
    files = {
        "pyproject.toml": '[project]\nversion = "1.2.0"\n',
        "CITATION.cff": "version: 1.2.0\n",
        "packaging/conda/recipe.yaml": '  version: "1.2.0"\n',
        "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-12-01\n\n- All.\n",
        "README.md": "# Title\n",
        "docs/install.md": "# Install\n",
    }

    def problems(tag="v1.2.0", **changed):
        contents = {**files, **{name.replace("__", "."): text for name, text in changed.items()}}
        for name, text in contents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return check.problems(tag, tmp_path)

    return problems


def test_a_release_that_is_ready_is_not_refused(release):
    assert release() == []


@pytest.mark.parametrize(
    ("tag", "changed", "said"),
    [
        ("v1.2.1", {}, "The tag is v1.2.1"),
        ("v1.2.0rc1", {}, "The tag is v1.2.0rc1"),
        ("v1.2.0", {"CITATION__cff": "version: 1.1.0\n"}, "CITATION.cff does not say"),
        (
            "v1.2.0",
            {"CHANGELOG__md": "## [Unreleased]\n\n- More.\n\n## [1.2.0] - 2026-12-01\n"},
            "under [Unreleased]",
        ),
        ("v1.2.0", {"CHANGELOG__md": "## [Unreleased]\n## [1.1.0] - 2026-11-01\n"}, "no heading"),
        ("v1.2.0", {"README__md": "No version is published yet"}, "README.md says"),
    ],
)
def test_a_release_that_is_not_ready_is_refused(release, tag, changed, said):
    (problem,) = release(tag, **changed)
    assert said in problem


def test_a_version_of_development_cannot_be_released(release):
    files = {"pyproject__toml": '[project]\nversion = "1.2.0.dev0"\n'}
    assert any("development version" in one for one in release("v1.2.0.dev0", **files))


def test_readme_and_install_page_agree_on_whether_anything_is_published(scripts):
    notice = scripts("check_release").NOTICE
    assert (notice in README) == (notice in (ROOT / "docs" / "install.md").read_text("utf-8"))


# -- citation -------------------------------------------------------------------------------------


def test_the_citation_names_this_version_the_paper_and_its_authors():
    citation = read("CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "type"} <= citation.keys()
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Homepage"]
    paper = citation["preferred-citation"]
    assert paper["title"].startswith("MaskInversion: ")
    assert [author["family-names"] for author in paper["authors"]] == [
        "Bousselham",
        "Chaybouti",
        "Rupprecht",
        "Ferrari",
        "Kuehne",
    ]
    assert paper["url"] == "https://arxiv.org/abs/2407.20034"


# -- issues ---------------------------------------------------------------------------------------

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.stem)
def test_an_issue_form_has_what_github_asks_for(file):
    form = read(file.relative_to(ROOT))
    assert {"name", "description", "body"} <= form.keys()
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    names = [field["id"] for field in fields]
    assert len(names) == len(set(names))
    for field in fields:
        assert field["type"] in ("textarea", "input", "dropdown", "checkboxes")
        assert field["attributes"]["label"]
    if file.stem != "feature":
        (doctor,) = (field for field in fields if field["id"] == "doctor")
        assert doctor["validations"]["required"]
