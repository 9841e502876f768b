"""The workflows say what the project says; GitHub alone can run them."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILE = ROOT / ".github" / "workflows" / "test.yml"
pytestmark = pytest.mark.full  # nothing but the workflows can break them
needs_bash = pytest.mark.skipif(
    sys.platform == "win32" or shutil.which("bash") is None, reason="needs bash"
)


@pytest.fixture(scope="module")
def jobs():
    return yaml.safe_load(FILE.read_text("utf-8"))["jobs"]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def runs(jobs):
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


def test_every_python_of_the_project_three_systems_and_both_qts_are_tested(jobs, project):
    cells = jobs["test"]["strategy"]["matrix"]["include"]
    said = {item.rpartition(" ")[2] for item in project["classifiers"] if "Python :: 3." in item}
    assert {cell["python"] for cell in cells} == said
    assert {(cell["os"].partition("-")[0], cell["qt"]) for cell in cells} == {
        (system, qt) for system in ("ubuntu", "windows", "macos") for qt in ("pyqt6", "pyside6")
    }


def test_the_oldest_python_gets_the_oldest_dependencies(jobs, project):
    steps = jobs["minimum"]["steps"]
    versions = [
        step["with"]["python-version"] for step in steps if "python-version" in step.get("with", {})
    ]
    assert project["requires-python"] == f">={versions[0]}"
    assert any("--resolution lowest-direct" in step.get("run", "") for step in steps)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_extras_and_paths_that_are_named_are_there(file, project):
    text = file.read_text("utf-8")
    extras = {name for group in re.findall(r"\"\.\[([\w,]+)\]", text) for name in group.split(",")}
    assert extras <= set(project["optional-dependencies"])
    assert extras or file.stem == "release"
    for path in re.findall(r"tests/[\w/.]+", text):
        assert (ROOT / path).exists(), path


@needs_bash
@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_every_step_is_a_shell_script_that_can_be_read(file):
    for script in runs(yaml.safe_load(file.read_text("utf-8"))["jobs"]):
        done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
        assert not done.stderr, script


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_may_write_only_where_a_job_says_so(file):
    assert yaml.safe_load(file.read_text("utf-8"))["permissions"] == {"contents": "read"}


@pytest.fixture(scope="module")
def release():
    return yaml.safe_load((FILE.parent / "release.yml").read_text("utf-8"))["jobs"]


def test_a_release_is_tested_as_installed_before_it_is_published(release):
    assert release["test"]["needs"] == "build"
    assert {cell["os"] for cell in release["test"]["strategy"]["matrix"]["include"]} == {
        "ubuntu-latest",
        "windows-latest",
        "macos-latest",
    }
    assert not any("checkout" in step.get("uses", "") for step in release["test"]["steps"])
    assert release["publish"]["needs"] == "test"
    assert release["announce"]["needs"] == "publish"
    commands = "\n".join(runs(release))
    for command in ("twine check --strict", "npe2 validate", "doctor", "napari-maskinversion run"):
        assert command in commands


def test_publishing_needs_a_tag_and_no_password(release):
    publish = release["publish"]
    assert publish["if"] == "github.ref_type == 'tag'"
    assert publish["permissions"] == {"id-token": "write", "attestations": "write"}
    steps = [step.get("uses", "").partition("@")[0] for step in publish["steps"]]
    assert steps[-2:] == ["actions/attest-build-provenance", "pypa/gh-action-pypi-publish"]
    assert "secrets." not in (FILE.parent / "release.yml").read_text("utf-8")


def test_a_tag_is_checked_before_anything_is_built(release):
    steps = release["build"]["steps"]
    commands = [step.get("run", "") for step in steps]
    check = commands.index('python scripts/check_release.py "$GITHUB_REF_NAME"')
    assert steps[check]["if"] == "github.ref_type == 'tag'"
    assert check < commands.index("uv build")


def called(program, script, folder, **variables):
    """Run a step in bash with a stand-in for a program; return how the program was called."""
    command, calls = folder / program, folder / "calls.txt"
    command.write_text(f'#!/bin/sh\n[ "$1" = list ] && echo "$LISTED" || echo "$@" >> {calls}\n')
    command.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "LISTED": "", **variables}
    subprocess.run(["bash", "-e", "-c", script], env=environment, check=True)
    return calls.read_text().splitlines()


@pytest.fixture(scope="module")
def publish():
    """The steps of the site's publication by name."""
    steps = yaml.safe_load((FILE.parent / "docs.yml").read_text("utf-8"))["jobs"]["publish"]
    return {
        step["name"]: step["run"] for step in steps["steps"] if "name" in step and "run" in step
    }


@needs_bash
@pytest.mark.parametrize(
    ("tag", "calls"),
    [
        (
            "v1.2.3",
            ["deploy --push --update-aliases 1.2 latest", "set-default --push latest"],
        ),
        ("v1.2.0rc1", ["deploy --push 1.2.0rc1"]),
    ],
)
def test_a_pre_release_is_not_the_latest_version_of_the_site(publish, tmp_path, tag, calls):
    script = publish["Released version"]
    assert called("mike", script, tmp_path, GITHUB_REF_NAME=tag) == calls


@needs_bash
@pytest.mark.parametrize("listed", ["", "dev [latest]"])
def test_until_the_first_release_links_to_the_latest_version_lead_to_main(
    publish, tmp_path, listed
):
    first, second = called("mike", publish["Development version"], tmp_path, LISTED=listed)
    assert first == "deploy --push --update-aliases dev latest"
    assert second == "set-default --push latest"


@needs_bash
def test_after_the_first_release_main_is_no_longer_the_latest_version(publish, tmp_path):
    script = publish["Development version"]
    assert called("mike", script, tmp_path, LISTED="dev\n0.2 [latest]") == ["deploy --push dev"]


@needs_bash
@pytest.mark.parametrize(("tag", "kind"), [("v1.2.3", "--latest"), ("v1.2.3rc1", "--prerelease")])
def test_a_pre_release_is_marked_as_one(release, tmp_path, tag, kind):
    script = release["announce"]["steps"][-1]["run"]
    (call,) = called("gh", script, tmp_path, GITHUB_REF_NAME=tag)
    assert call.endswith(kind)
