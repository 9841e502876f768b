"""Memory, models, network and cache folder."""

import sys

import pytest

from napari_maskinversion.diffusion.decoders import DECODERS as DRAWERS
from napari_maskinversion.diffusion.decoders import default_folder
from napari_maskinversion.doctor import machine
from napari_maskinversion.engine.models.registry import model_folder
from napari_maskinversion.engine.models.specs import MODELS
from napari_maskinversion.language.ranking.calibration import Calibration
from napari_maskinversion.results.calibrations import keep_calibration, shipped_calibrations
from napari_maskinversion.results.settings import RunSettings

GIB = 2**30


def test_python_is_told_with_the_system_and_an_untested_one_is_noted(monkeypatch):
    (finding,) = machine.check_python()
    assert finding.status == "ok"
    assert finding.summary.startswith(".".join(map(str, sys.version_info[:3])))
    monkeypatch.setattr(sys, "version_info", (3, 15, 0))
    assert machine.check_python()[0].status == "note"


def test_a_container_s_limit_counts_as_the_memory():
    assert machine.memory_finding(32 * GIB, 20 * GIB).status == "ok"
    finding = machine.memory_finding(32 * GIB, 20 * GIB, 2 * GIB)
    assert finding.status == "note"
    assert "this container may use 2.0 GiB" in finding.summary


def test_without_a_model_for_photographs_there_is_a_way_to_get_one(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    (finding,) = machine.check_models()
    assert finding.status == "note"
    assert finding.remedy == "napari-maskinversion models fetch ViT-B-16/openai"
    monkeypatch.setenv("NAPARI_MASKINVERSION_OFFLINE", "1")
    (finding,) = machine.check_models()
    assert "on a machine with a network" in finding.remedy


def test_unfinished_downloads_are_counted():
    folder = model_folder(MODELS["ViT-B-16/openai"])
    folder.mkdir(parents=True)
    (folder / ".open_clip_model.safetensors.1.part").touch()
    assert "1 unfinished download" in machine.check_models()[0].summary


def test_decoders_on_this_machine_are_models_too():
    kept, *_ = DRAWERS.values()
    default_folder(kept).mkdir(parents=True)
    (finding,) = machine.check_models()
    assert "captions by demo" in finding.summary
    assert f"pictures by {kept.name} (not whole)" in finding.summary
    assert "decap" not in finding.summary  # a file of the user's


def test_calibrated_limits_are_shown(own_config_folder):
    (finding,) = machine.check_limits()
    (shipped,) = shipped_calibrations().values()
    told = f"margin {shipped.margin:.3f}, overlap {shipped.overlap:.3f}"
    assert f"maskinversion-legrad (with the package): {told}" in finding.summary
    limits = Calibration(
        margin=0.5, overlap=None, right=1, wrong=1, right_kept=1.0, wrong_flagged=1.0
    )
    keep_calibration("feed", RunSettings(), limits)
    assert "(yours): margin 0.500" in machine.check_limits()[0].summary


def test_a_proxy_is_named_without_its_password(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@proxy:3128")
    (finding,) = machine.check_network()
    assert finding.status == "ok"
    assert "HTTPS_PROXY" in finding.summary
    assert "secret" not in str(finding)


def test_certificates_that_are_not_there_are_a_problem(monkeypatch, tmp_path):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "company.pem"))
    (finding,) = machine.check_network()
    assert finding.status == "problem"
    assert "SSL_CERT_FILE" in finding.remedy


def test_the_cache_folder_is_measured(own_cache_folder):
    (own_cache_folder / "notes.txt").write_bytes(b"x" * 1500)
    (finding,) = machine.check_cache()
    assert f"{own_cache_folder}: 1.5 kB (notes.txt, never cleared: 1.5 kB)" in finding.summary


def test_what_fills_the_cache_folder_is_said(own_cache_folder):
    for name, size in (("sprites/kept.npz", 3000), ("diffusion/one/unet.bin", 5000)):
        (own_cache_folder / name).parent.mkdir(parents=True)
        (own_cache_folder / name).write_bytes(b"x" * size)
    (finding,) = machine.check_cache()
    assert "decoders that draw pictures, never cleared: 5.0 kB; drawings" in finding.summary
    assert finding.facts["sizes"]["sprites"] == 3000


def test_a_cache_folder_that_cannot_be_is_a_problem(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NAPARI_MASKINVERSION_CACHE", str(tmp_path / "file" / "cache"))
    (finding,) = machine.check_cache()
    assert finding.status == "problem"
    assert "NAPARI_MASKINVERSION_CACHE" in finding.remedy


@pytest.mark.parametrize(("free", "status"), [(10**9, "note"), (10**10, "ok")])
def test_a_disk_that_is_nearly_full_is_noted(monkeypatch, free, status):
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: usage)
    assert machine.check_cache()[0].status == status
