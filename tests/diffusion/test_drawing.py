"""Drawing with the real pipelines of diffusers, on tiny weights."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from napari_maskinversion.base.errors import ModelError, NotEnoughMemoryError
from napari_maskinversion.base.progress import listening
from napari_maskinversion.diffusion.decoders import DECODERS, open_folder
from napari_maskinversion.diffusion.drawing import Drawer
from napari_maskinversion.diffusion.generated_pictures import Condition
from napari_maskinversion.diffusion.settings import PictureSettings
from tests.listeners import collect, stopped

CPU = torch.device("cpu")
FAMILIES = {"kandinsky": "kandinsky22", "unclip": "unclip-l"}


def drawer_of(name, folder, dtype=torch.float32):
    return Drawer(open_folder(DECODERS[name], folder), CPU, dtype)


@pytest.fixture(scope="module", params=list(FAMILIES))
def drawer(request):
    folder = request.getfixturevalue(f"{request.param}_folder")
    return drawer_of(FAMILIES[request.param], folder)


def condition(seed=0, scale=1.0, prompt="", picture=0):
    embedding, nothing = np.random.default_rng(seed).normal(size=(2, 128)).astype(np.float32)
    return Condition(embedding=scale * embedding, nothing=nothing, prompt=prompt, seed=picture)


def draw(drawer, what=None, **changes):
    name = drawer.folder.decoder.name
    settings = PictureSettings(decoder=name, size=64, **{"steps": 2, **changes}).filled()
    return drawer.draw(what or condition(), settings)


def test_the_same_seed_gives_the_same_picture(drawer, no_network):
    first = draw(drawer)
    assert first.shape == (64, 64, 3)
    assert first.dtype == np.uint8
    assert first.std() > 1
    np.testing.assert_array_equal(draw(drawer), first)


@pytest.mark.parametrize(
    "changes",
    [
        {"what": condition(1)},
        {"what": condition(scale=3.0)},  # the norm counts
        {"what": condition(picture=1)},
        {"steps": 3},
        {"guidance": 1.0},
    ],
    ids=["embedding", "norm", "seed", "steps", "guidance"],
)
def test_embedding_norm_seed_steps_and_guidance_change_the_picture(drawer, changes):
    assert (draw(drawer, **changes) != draw(drawer)).mean() > 0.01


def test_only_unclip_reads_a_prompt_by_itself(unclip_folder):
    drawer = drawer_of("unclip-l", unclip_folder)
    assert (draw(drawer, condition(prompt="dog")) != draw(drawer)).any()


def test_a_picture_has_the_size_that_was_asked_for(drawer):
    settings = PictureSettings(decoder=drawer.folder.decoder.name, size=128, steps=1).filled()
    assert drawer.draw(condition(), settings).shape == (128, 128, 3)


def test_each_step_is_told_and_can_stop_the_drawing(drawer):
    told, _ = collect(lambda: draw(drawer, steps=3))
    steps = told[-1].total
    assert [(one.done, one.total) for one in told] == [(n, steps) for n in range(1, steps + 1)]
    assert steps >= 3
    stopped(lambda: draw(drawer, steps=3), 2)
    assert torch.is_grad_enabled()
    np.testing.assert_array_equal(draw(drawer), draw(drawer))  # and the decoder still works


def test_a_smaller_precision_works(kandinsky_folder):
    small = draw(drawer_of("kandinsky22", kandinsky_folder, torch.bfloat16))
    assert small.shape == (64, 64, 3)


def change(folder, part, edit):
    file = folder / part / "diffusion_pytorch_model.safetensors"
    state = load_file(file)
    edit(state)
    save_file(state, file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda state: state.pop("conv_in.bias"), "missing, such as conv_in.bias"),
        (lambda state: state.update(extra=torch.zeros(1)), "unexpected, such as extra"),
        (lambda state: state.update({"conv_in.bias": torch.zeros(3)}), "conv_in.bias|shape"),
    ],
    ids=["missing", "unexpected", "shape"],
)
def test_weights_that_do_not_fit_are_refused(broken, edit, says):
    change(broken, "unet", edit)
    with pytest.raises(ModelError, match=says) as caught:
        drawer_of("kandinsky22", broken)
    assert "\n" not in str(caught.value)
    assert str(broken / "unet") in str(caught.value)


def test_a_scheduler_that_is_not_known_is_refused(broken):
    config = broken / "scheduler" / "scheduler_config.json"
    config.write_text('{"_class_name": "KarrasVeScheduler"}')
    with pytest.raises(ModelError, match="must be DDPMScheduler or DDIMScheduler"):
        drawer_of("kandinsky22", broken)


def test_damaged_weights_do_not_end_in_a_black_picture(broken):
    change(broken, "unet", lambda state: state["conv_out.bias"].fill_(float("nan")))
    with pytest.raises(ModelError, match="not finite"):
        draw(drawer_of("kandinsky22", broken))


def test_memory_that_runs_out_says_what_to_do(kandinsky_folder):
    drawer = drawer_of("kandinsky22", kandinsky_folder)

    def run_out(*_):
        raise torch.OutOfMemoryError("out of memory")

    said = pytest.raises(NotEnoughMemoryError, match="smaller pictures, in bfloat16")
    with said, listening(run_out):
        draw(drawer)
