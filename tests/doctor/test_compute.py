"""Why there is no GPU, and why torch does not start: each known trap has its remedy."""

import pytest

from napari_maskinversion.doctor.compute import Machine, torch_findings
from napari_maskinversion.doctor.probe import Probed
from napari_maskinversion.doctor.remedies import install_torch

REINSTALL = install_torch("auto", "--reinstall")
TOO_OLD = "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)."
H200 = {"name": "NVIDIA H200", "memory": 150 * 2**30, "capability": [9, 0]}


def facts(**changed):
    return {
        "version": "2.9.0",
        "cuda": "13.0",
        "hip": None,
        "gpus": [],
        "architectures": [],
        "mps_built": False,
        "mps": False,
        "threads": 8,
        "numpy_error": "",
        "warnings": [],
        **changed,
    }


def device(machine, **changed):
    _, finding = torch_findings(Probed(facts(**changed)), machine)
    return finding


def test_a_gpu_is_named_with_its_memory():
    finding = device(Machine(driver=True), gpus=[H200], architectures=["sm_80", "sm_90"])
    assert (finding.status, finding.summary) == ("ok", "cuda: NVIDIA H200 (150 GiB)")


@pytest.mark.parametrize(
    ("capability", "architectures", "status"),
    [
        ([8, 6], ["sm_80", "sm_90"], "ok"),  # code of its own generation
        ([12, 0], ["sm_90", "compute_90"], "ok"),  # PTX of an older one
        ([12, 0], ["sm_90", "sm_100a"], "problem"),
        ([6, 1], ["sm_75", "compute_75"], "problem"),
    ],
)
def test_a_gpu_that_this_torch_was_not_built_for_is_a_problem(capability, architectures, status):
    gpu = {**H200, "capability": capability}
    finding = device(Machine(driver=True), gpus=[gpu], architectures=architectures)
    assert finding.status == status
    assert ("device cpu" in finding.remedy) == (status == "problem")


@pytest.mark.parametrize(
    ("machine", "changed", "summary", "remedy"),
    [
        (Machine(driver=True), {"cuda": None}, "for the CPU only", REINSTALL),
        (Machine(driver=True), {"warnings": [TOO_OLD]}, "too old for CUDA 13.0", "update the"),
        (Machine(driver=True), {"warnings": ["CUDA unknown error"]}, "unknown error", "nvidia-smi"),
        (Machine(driver=True, hidden="-1"), {}, "CUDA_VISIBLE_DEVICES='-1' hides", "unset"),
        (Machine(card=True), {}, "without a driver", "install NVIDIA's driver"),
        (
            Machine(system="Darwin", translated=True),
            {"cuda": None},
            "runs on Apple silicon",
            "for arm64",
        ),
        (
            Machine(system="Darwin", processor="arm64"),
            {"cuda": None, "mps_built": True},
            "with this macOS",
            "update macOS",
        ),
    ],
    ids=["CPU wheel", "old driver", "broken CUDA", "hidden", "no driver", "Rosetta", "old macOS"],
)
def test_a_missing_gpu_is_explained(machine, changed, summary, remedy):
    finding = device(machine, **changed)
    assert finding.status == "note"
    assert finding.summary.startswith("cpu: ")
    assert summary in finding.summary
    assert remedy in finding.remedy


def test_a_machine_without_a_gpu_needs_no_remedy():
    assert device(Machine()).status == "ok"
    assert device(Machine(system="Darwin", processor="arm64"), mps=True).summary.endswith("(mps)")


@pytest.mark.parametrize(
    ("failure", "output", "machine", "remedy"),
    [
        ("ModuleNotFoundError: No module named 'torch'", "", Machine(), "--torch-backend auto"),
        (
            "ModuleNotFoundError: No module named 'torch'",
            "",
            Machine(system="Darwin"),
            "no Macs with Intel",
        ),
        ("OSError: [WinError 126] c10.dll not found", "", Machine(system="Windows"), "Visual C++"),
        ("ImportError: undefined symbol: iJIT_NotifyEvent", "", Machine(), "mkl<2024.1"),
        ("ImportError: libcudnn.so.9: cannot open", "", Machine(), "unset LD_LIBRARY_PATH"),
        ("the process was ended by SIGILL", "", Machine(), "AVX"),
        ("AttributeError: partially initialized module 'torch'", "", Machine(), "start elsewhere"),
        ("ImportError: something new", "", Machine(), REINSTALL),
    ],
)
def test_a_torch_that_does_not_start_is_one_problem_with_its_remedy(
    failure, output, machine, remedy
):
    (finding,) = torch_findings(Probed(failure=failure, output=output), machine)
    assert finding.status == "problem"
    assert remedy in finding.remedy
    assert "\n" not in finding.summary


def test_a_torch_that_cannot_read_numpy_s_arrays_is_a_problem():
    torch, _ = torch_findings(
        Probed(facts(numpy_error="RuntimeError: Numpy is not available")), Machine()
    )
    assert torch.status == "problem"
    assert "Numpy is not available" in torch.summary
