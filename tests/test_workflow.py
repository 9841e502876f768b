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

from .test_without_qt import HIDDEN

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILE = ROOT / ".github" / "workflows" / "test.yml"
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


@needs_bash
@pytest.mark.parametrize(("tag", "code"), [("v1.2.3", 0), ("v1.2.4", 1), ("v9.0.0", 1)])
def test_a_tag_that_is_not_the_version_or_not_in_the_changelog_is_refused(
    release, tmp_path, tag, code
):
    (script,) = (step["run"] for step in release["build"]["steps"] if "if" in step)
    (tmp_path / "dist").mkdir()
    for version in ("1.2.3", "9.0.0"):
        (tmp_path / "dist" / f"napari_maskinversion-{version}-py3-none-any.whl").touch()
    (tmp_path / "CHANGELOG.md").write_text("## [1.2.3]\n## [1.2.4]\n")
    environment = {**os.environ, "GITHUB_REF_NAME": tag}
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment)
    assert (done.returncode != 0) == bool(code)


@needs_bash
@pytest.mark.parametrize(
    ("program", "code"),
    [
        (HIDDEN + "\nsys.exit(call(*sys.argv[1:]))", 0),
        ("import sys\nsys.exit(2)", 1),
        ("raise ValueError('Error: The panel and the demo need Qt')", 1),
        ("print('it works')", 1),
    ],
    ids=["no Qt", "nothing said", "a traceback", "nothing missing"],
)
def test_the_wheel_s_job_asserts_the_sentence_where_there_is_no_qt(jobs, tmp_path, program, code):
    (script,) = (run for run in runs(jobs) if "demo" in run)
    command = tmp_path / "napari-maskinversion"
    command.write_text(f"#!{sys.executable}\n{program}\n")
    command.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    kept = {k: v for k, v in os.environ.items() if k not in ("QT_API", "PYTEST_QT_API")}
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env={**kept, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode != 0) == bool(code), done.stdout
