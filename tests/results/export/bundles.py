"""A bundle with everything: labels, colours, units, masks, decisions."""

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.identity import ImageIdentity
from napari_maskinversion.base.units import Georeference, Units
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.regions.label_images import PlaneRegions
from napari_maskinversion.results.export.bundle import Bundle, compress_masks
from tests.scenes import demo_model, picture, regions, run

IMAGE = ImageIdentity("bild ä.png", (60, 80, 3), "uint8", "00ff")
GEO = Georeference(transform=(0.5, 0, 4e5, 0, -0.5, 5.7e6), epsg=32632)


def make_bundle():
    words = Vocabulary(("Äpfel, rote", "car", 'a "key"'), colors=("#ff8000", "", ""), threshold=-1)
    units = Units(pixel=(0.5, 0.5), unit="m", geo=GEO)
    results = run(demo_model(), picture(), regions(4), words, InversionConfig(steps=2), units=units)
    return Bundle(
        results=results,
        masks=compress_masks([PlaneRegions((), regions(4))]),
        source={"image": {"file": "bild ä.png"}},
        image=IMAGE,
        columns={
            "decision": ["accepted", "rejected", "undecided", "skipped"],
            "accepted_label": ["Haus 家", "", "", ""],
        },
        records=[{"review": {"decision": name}} for name in ("accepted", "", "", "skipped")],
        decisions=b'{"kind": "run"}\n',
    )
