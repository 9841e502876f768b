"""The device on which tests of engine and pipeline compute: the CPU, or what a variable names."""

import os

VARIABLE = "NAPARI_MASKINVERSION_TEST_DEVICE"
DEVICE = os.environ.get(VARIABLE, "cpu")


def check_device():
    """Hide GPUs from tests on the CPU; return why tests cannot run on another device, or ""."""
    if DEVICE == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # read when torch first looks for them
        return ""
    import torch

    from napari_maskinversion.base.errors import ModelError
    from napari_maskinversion.engine.compute.devices import choose_device

    try:
        choose_device(DEVICE)
    except ModelError as error:
        built = f"torch {torch.__version__}, built for CUDA {torch.version.cuda}"
        return f"{VARIABLE}={DEVICE}: {error} ({built})"
    return ""
