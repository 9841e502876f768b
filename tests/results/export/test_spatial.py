"""Maps and spatial omics, read back by the programs that they are for."""

import json
import warnings
from dataclasses import replace
from itertools import pairwise

import anndata
import geopandas
import numpy as np
import pyogrio
import pytest
import zarr
from ome_zarr.io import parse_url
from ome_zarr.reader import Reader
from ome_zarr_models.v05.image_label import ImageLabel

from napari_maskinversion import read_regions
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.regions.label_images import PlaneRegions
from napari_maskinversion.results.export.annotations import to_annotations
from napari_maskinversion.results.export.bundle import compress_masks
from napari_maskinversion.results.export.catalogue import FORMATS, export
from tests.results.export.bundles import GEO
from tests.scenes import label_image

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import spatialdata

SHAPE = (60, 80)
STORES = {"ome-zarr": "regions.ome.zarr", "ome-zarr-0.4": "regions_v04.ome.zarr"}


@pytest.fixture(scope="module")
def words(bundle):
    return [item.label for item in to_annotations(bundle).items]


def with_info(bundle, **changes):
    return replace(
        bundle, results=replace(bundle.results, info=replace(bundle.results.info, **changes))
    )


def on_planes(bundle, positions):
    """The regions on planes of a stack."""
    rows = zip(bundle.results.regions, positions, strict=True)
    masks = {region.id: bundle.masks[(), region.id] for region in bundle.results.regions}
    regions = tuple(replace(region, position=place) for region, place in rows)
    results = replace(bundle.results, regions=regions)
    info = replace(results.info, axes=("t", "z"))
    return replace(
        bundle,
        results=replace(results, info=info),
        masks={(region.position, region.id): masks[region.id] for region in regions},
    )


def enlarged(bundle, shape, boxes):
    """The same results with other regions on a large plane."""
    regions = Regions(
        shape,
        [Region(n, box, np.ones((box[2] - box[0], box[3] - box[1]), bool)) for n, box in boxes],
    )
    rows = zip(bundle.results.regions, regions, strict=True)
    results = replace(
        bundle.results,
        regions=tuple(replace(old, id=new.id, bbox=new.bbox) for old, new in rows),
        info=replace(bundle.results.info, image_shape=shape),
    )
    masks = compress_masks([PlaneRegions((), regions)])
    return replace(bundle, results=results, masks=masks)


def test_a_geopackage_has_outlines_in_the_reference_system_of_the_image(bundle, folder, words):
    layer = geopandas.read_file(folder / "regions.gpkg")
    assert layer.crs.to_epsg() == GEO.epsg
    frame = bundle.results.to_frame()
    np.testing.assert_allclose(layer.geometry.area, frame["area"], rtol=1e-6)
    np.testing.assert_allclose(layer.geometry.centroid.x, frame["world_x"], rtol=1e-9)
    assert [word or "" for word in layer["label"]] == words
    assert layer["region"].tolist() == frame["region"].tolist()
    np.testing.assert_array_equal(layer["iou"], frame["iou"])
    about = pyogrio.read_info(folder / "regions.gpkg", layer="regions")["layer_metadata"]
    assert json.loads(about["napari-maskinversion"])["model"]["name"] == "demo"


def test_a_geopackage_without_a_georeference_is_in_pixels(bundle, tmp_path):
    export(with_info(bundle, units=None), tmp_path / "a.gpkg")
    layer = geopandas.read_file(tmp_path / "a.gpkg")
    assert layer.crs is None
    y0, x0, y1, x1 = bundle.results.regions[1].bbox
    assert layer.geometry[1].bounds == (x0, y0, x1, y1)


def opened(path):
    (node,) = Reader(parse_url(str(path)))()
    return node


@pytest.mark.parametrize("file", STORES.values())
def test_ome_zarr_is_read_by_ome_zarr(bundle, folder, words, file):
    node = opened(folder / file)
    np.testing.assert_array_equal(np.asarray(node.data[0]), label_image(4))
    about = node.metadata
    assert about["properties"][3]["label"] == words[2]
    assert about["properties"][3]["iou"] == bundle.results.regions[2].iou
    car = next(
        n for n, word in enumerate(words, 1) if word in bundle.results.info.vocabulary.labels
    )
    assert about["color"][car][:3] != about["color"][2][:3]
    assert [axis["unit"] for axis in about["axes"]] == ["meter", "meter"]
    assert about["coordinateTransformations"][0][0]["scale"] == [0.5, 0.5]


def test_ome_zarr_follows_the_model_of_its_version(folder):
    image = ImageLabel.from_zarr(zarr.open_group(str(folder / STORES["ome-zarr"]), mode="r"))
    assert image.ome_attributes.version == "0.5"
    old = zarr.open_group(str(folder / STORES["ome-zarr-0.4"]), mode="r")
    assert old.metadata.zarr_format == 2
    assert old.attrs["multiscales"][0]["version"] == "0.4"
    assert old["0"].metadata.dimension_separator == "/"


def test_a_large_label_image_has_a_pyramid_and_no_chunk_without_a_region(bundle, tmp_path):
    boxes = [
        (1, (0, 0, 10, 10)),
        (2, (4, 4, 8, 8)),
        (3, (2000, 3000, 2100, 3090)),
        (9, (2990, 0, 3000, 7)),
    ]
    many = enlarged(bundle, (3000, 3500), boxes)
    export(many, tmp_path / "a.zarr", "ome-zarr")
    levels = [np.asarray(level) for level in opened(tmp_path / "a.zarr").data]
    assert [level.shape for level in levels] == [(3000, 3500), (1500, 1750), (750, 875), (375, 438)]
    for fine, coarse in pairwise(levels):
        np.testing.assert_array_equal(coarse, fine[::2, ::2])
    assert [int((levels[0] == n).sum()) for n, _ in boxes] == [84, 16, 9000, 70]
    chunks = {
        file.relative_to(tmp_path / "a.zarr/0/c").as_posix()
        for file in (tmp_path / "a.zarr/0/c").rglob("*")
        if file.is_file()
    }
    assert chunks == {"0/0", "1/2", "1/3", "2/2", "2/3", "2/0"}


@pytest.mark.parametrize("order", ["tz", "zt", "zqt"])
def test_regions_of_planes_have_planes_in_ome_zarr(bundle, tmp_path, order):
    planes = [{"t": t, "q": 0, "z": z} for t, z in ((0, 2), (1, 0), (1, 0), (0, 2))]
    places = [tuple((axis, plane[axis]) for axis in order) for plane in planes]
    export(on_planes(bundle, places), tmp_path / "a.zarr", "ome-zarr")
    node = opened(tmp_path / "a.zarr")
    axes = "tqzyx" if "q" in order else "tzyx"  # time, others, space
    assert [axis["name"] for axis in node.metadata["axes"]] == list(axes)
    pixels = np.asarray(node.data[0])
    pixels = pixels[:, 0] if "q" in order else pixels
    assert pixels.shape == (2, 3, *SHAPE)
    labels = label_image(4)
    np.testing.assert_array_equal(pixels[0, 2], np.where(np.isin(labels, (1, 4)), labels, 0))
    np.testing.assert_array_equal(pixels[1, 0], np.where(np.isin(labels, (2, 3)), labels, 0))


def test_anndata_has_embeddings_and_the_table(bundle, folder, words):
    table = anndata.read_h5ad(folder / "regions.h5ad")
    frame = bundle.table()
    np.testing.assert_array_equal(table.X, bundle.results.embeddings)
    assert [word if isinstance(word, str) else "" for word in table.obs["label"]] == words
    for name in ("iou", "area_px", "probability"):
        np.testing.assert_array_equal(table.obs[name], frame[name])
    assert table.obs["suggestion"].tolist() == frame["suggestion"].tolist()
    assert table.obs["decision"].tolist() == frame["decision"].tolist()
    assert table.obs["instance_id"].tolist() == [1, 2, 3, 4]
    keys = {"region": "regions", "region_key": "region", "instance_key": "instance_id"}
    assert table.uns["spatialdata_attrs"] == keys
    centroids = [region.centroid for region in bundle.results.regions]
    np.testing.assert_allclose(
        table.obsm["spatial"], np.array(centroids)[:, ::-1] + 0.5, rtol=0, atol=1e-9
    )
    colors = dict(zip(table.obs["label"].cat.categories, table.uns["label_colors"], strict=True))
    assert colors["Äpfel, rote"] == "#ff8000"
    assert json.loads(table.uns["napari-maskinversion"])["model"]["name"] == "demo"


def test_words_of_digits_stay_words_in_anndata(bundle, tmp_path):
    regions = tuple(replace(region, source_id="007") for region in bundle.results.regions)
    words = ["1", "02", "", "3"]
    changed = replace(
        bundle,
        results=replace(bundle.results, regions=regions),
        columns={"accepted_label": words, "count": [1, None, 2, 3]},
    )
    export(changed, tmp_path / "a.h5ad")
    table = anndata.read_h5ad(tmp_path / "a.h5ad").obs
    assert table["source_id"].tolist() == ["007"] * 4
    assert table["accepted_label"].tolist() == words
    np.testing.assert_array_equal(table["count"], [1, np.nan, 2, 3])


def test_spatialdata_joins_the_table_to_labels_and_outlines(bundle, folder):
    data = spatialdata.read_zarr(folder / "spatialdata.zarr")
    np.testing.assert_array_equal(data["regions"].values, label_image(4))
    labels, table = spatialdata.match_element_to_table(data, "regions", "table")
    assert set(labels) == {"regions"}
    np.testing.assert_array_equal(table.X, bundle.results.embeddings)
    np.testing.assert_allclose(
        data["outlines"].geometry.area,
        [region.area for region in bundle.results.regions],
        rtol=1e-9,
    )
    extent = spatialdata.get_extent(data["outlines"], coordinate_system="physical")
    whole = spatialdata.get_extent(data["outlines"], coordinate_system="global")
    assert extent["x"][1] == 0.5 * whole["x"][1]
    extent = spatialdata.get_extent(data["regions"], coordinate_system="physical")
    assert (extent["y"], extent["x"]) == ((0, 30), (0, 40))


def test_spatialdata_has_an_element_for_each_plane(bundle, tmp_path):
    first, second = (("t", 0), ("z", 2)), (("t", 1), ("z", 0))
    places = [first, second, second, first]
    export(on_planes(bundle, places), tmp_path / "a.zarr", "spatialdata")
    data = spatialdata.read_zarr(tmp_path / "a.zarr")
    assert set(data.labels) == {"regions_t0_z2", "regions_t1_z0"}
    assert set(data.shapes) == {"outlines_t0_z2", "outlines_t1_z0"}
    table = data["table"].obs
    for name in data.labels:
        instances = spatialdata.get_element_instances(data[name])
        assert table["instance_id"][table["region"] == name].tolist() == sorted({*instances} - {0})


@pytest.mark.parametrize("file", [*STORES.values(), "spatialdata.zarr"])
def test_what_was_written_is_read_as_regions_again(folder, file):
    regions = read_regions(folder / file, SHAPE)
    assert regions.ids == [1, 2, 3, 4]
    np.testing.assert_array_equal(regions.full_mask(2), label_image(4) == 3)


@pytest.mark.parametrize("name", ["ome-zarr", "ome-zarr-0.4", "spatialdata"])
def test_a_store_of_ours_is_replaced_and_one_of_others_never(bundle, tmp_path, name):
    path = tmp_path / "mine.zarr"
    FORMATS[name].write(bundle, path)
    (path / "stray").touch()
    FORMATS[name].write(bundle, path)
    assert not (path / "stray").exists()
    assert list(tmp_path.iterdir()) == [path]
    theirs = tmp_path / "theirs.zarr"
    zarr.create_array(str(theirs), data=label_image(4))
    before = {file: file.stat().st_mtime_ns for file in theirs.rglob("*")}
    with pytest.raises(InputError, match=r"theirs\.zarr was not written by this program and stays"):
        FORMATS[name].write(bundle, theirs)
    assert {file: file.stat().st_mtime_ns for file in theirs.rglob("*")} == before
