"""Caption banks in the panel, without a window."""

from dataclasses import replace

import pytest

from napari_maskinversion._napari.explore.caption_banks import KnownBank
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.captions.building import build_bank
from napari_maskinversion.language.captions.caption_files import Captions
from tests.scenes import demo_model


@pytest.mark.parametrize("name", ["own", "own.safetensors"])
def test_a_bank_of_an_own_model_fits_the_path_that_is_chosen(tmp_path, name):
    build_bank(demo_model(), Captions.of(["a dog"]), tmp_path / "bank")
    known = KnownBank.open(tmp_path / "bank")
    known = replace(known, record=replace(known.record, model="own"))
    path = tmp_path / name
    path.write_bytes(b"") if path.suffix else path.mkdir()
    known.check_model(str(path))
    for other in ("demo", str(tmp_path / "other.pt")):
        with pytest.raises(InputError, match=r"with the model own, not with (demo|other);"):
            known.check_model(other)
