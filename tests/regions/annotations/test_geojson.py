"""GeoJSON, read back by itself, by shapely and by geopandas."""

import json

import geopandas
import numpy as np
import pytest
import shapely
from hypothesis import HealthCheck, given, settings

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.units import Georeference
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations
from napari_maskinversion.regions.annotations.annotation_reading import read_annotations
from napari_maskinversion.regions.annotations.coco_writing import write_coco
from napari_maskinversion.regions.annotations.geojson import write_geojson

from .files import feature, geojson
from .shapes import PLANE, RING, annotations, drawn, full, same

quick = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# Turned a little, north up, 0.3 m a pixel.
FIELD = Georeference(transform=(0.3, 0.02, 500_000.1, 0.02, -0.3, 5_600_000.7), epsg=32632)


@pytest.mark.parametrize(("write", "name"), [(write_geojson, "a.geojson"), (write_coco, "a.json")])
@quick
@given(written=annotations())
def test_what_is_written_comes_back(tmp_path, write, name, written):
    path = tmp_path / name
    write(written, path)
    result = read_annotations(path, PLANE, image=written.image)
    assert not result.notes
    for one, other in zip(result.items, written.items, strict=True):
        same(one.region, other.region)
        assert (one.label, one.score, one.values) == (other.label, other.score, other.values)


@quick
@given(annotations())
def test_the_world_and_back_is_exact(tmp_path, written):
    path = tmp_path / "regions.geojson"
    there = Annotations(shape=PLANE, items=written.items, geo=FIELD)
    write_geojson(there, path, world=True)
    result = read_annotations(path, PLANE, geo=FIELD)
    assert not result.notes
    for one, other in zip(result.items, written.items, strict=True):
        same(one.region, other.region)


def test_geopandas_finds_regions_where_they_lie(tmp_path):
    path = tmp_path / "regions.geojson"
    geo = Georeference(transform=(2.0, 0, 1000.0, 0, -2.0, 5000.0), epsg=32632)
    written = Annotations(shape=(7, 7), items=(Annotation(region=RING, label="Wiese"),), geo=geo)
    write_geojson(written, path, world=True)
    table = geopandas.read_file(path)
    assert table.crs.to_epsg() == 32632
    assert table.geometry[0].is_valid
    assert table.geometry[0].area == 18 * 4
    # Column 1 to 7, row 1 to 7: the y axis goes up in the world.
    assert table.total_bounds.tolist() == [1002, 4986, 1014, 4998]
    assert table.region.tolist() == [1]


def test_shapely_and_qupath_find_pixels_names_and_numbers(tmp_path):
    path = tmp_path / "regions.geojson"
    item = Annotation(
        region=drawn("..##", "..##", region_id=4),
        label="車",
        score=0.5,
        position=(("z", 2),),
        columns={"iou": 0.7, "margin": float("nan"), "status": "ok"},
    )
    written = Annotations(shape=(2, 4), items=(item,), image="a.tif", colors={"車": "#ff8000"})
    write_geojson(written, path)
    page = json.loads(path.read_text("utf-8"))
    assert page["napari-maskinversion"]["coordinates"] == "pixel"
    assert "crs" not in page
    feature = page["features"][0]
    assert shapely.geometry.shape(feature["geometry"]).equals(shapely.box(2, 0, 4, 2))
    assert feature["geometry"]["plane"] == {"c": -1, "z": 2, "t": 0}
    assert len(feature["id"]) == 36
    assert feature["properties"] == {
        "objectType": "annotation",
        "name": "region 4",
        "region": 4,
        "position": {"z": 2},
        "classification": {"name": "車", "color": [255, 128, 0]},
        "measurements": {"score": 0.5, "iou": 0.7},
        "metadata": {"status": "ok"},
    }


def test_exteriors_are_counterclockwise_and_holes_clockwise(tmp_path):
    path = tmp_path / "regions.geojson"
    write_geojson(Annotations(shape=(7, 7), items=(Annotation(region=RING),)), path)
    (feature,) = json.loads(path.read_text())["features"]
    for shell, *holes in feature["geometry"]["coordinates"]:
        assert shapely.LinearRing(shell).is_ccw
        assert not any(shapely.LinearRing(hole).is_ccw for hole in holes)


SHAPE = (7, 9)
SQUARE = [[1, 1], [5, 1], [5, 4], [1, 4], [1, 1]]
BOW = [[0, 0], [6, 6], [6, 0], [0, 6], [0, 0]]


def test_a_list_of_features_of_an_older_qupath_is_read(read):
    old = feature(
        SQUARE,
        classification={"name": "Tumor", "colorRGB": -3670016},
        measurements=[{"name": "Area", "value": 12.5}],
    )
    (item,) = read([old]).items
    assert (item.region.bbox, item.label, item.values) == ((1, 1, 4, 5), "Tumor", {"Area": 12.5})


def test_objects_that_qupath_nests_are_regions_of_their_own(read):
    cell = feature([[2, 2], [4, 2], [4, 3], [2, 3], [2, 2]], objectType="cell")
    cell |= {"id": "ad9c", "nucleusGeometry": cell["geometry"]}
    tumor = feature(SQUARE, objectType="annotation", classification={"name": "Tumor"})
    tumor["properties"]["childObjects"] = [cell, feature(SQUARE, label="stroma")]
    root = {"type": "Feature", "geometry": None, "properties": {"childObjects": [tumor]}}
    result = read(geojson(root))
    assert [item.label for item in result.items] == ["Tumor", "", "stroma"]
    assert [item.region.area for item in result.items] == [12, 2, 12]
    assert result.items[1].source_id == "ad9c"
    assert "has 3 objects inside others; they are regions of their own." in result.notes_text
    assert "has 1 cells with a nucleus; the region is the cell." in result.notes_text


def test_children_that_are_no_features_are_an_attribute(read):
    family = feature(SQUARE, label="house")
    family["properties"]["children"] = [{"name": "Ann"}]
    result = read(geojson(family))
    assert [item.label for item in result.items] == ["house"]
    assert "objects inside others" not in result.notes_text


def test_a_self_intersection_is_repaired_with_a_note(read):
    result = read(geojson(feature(SQUARE), feature(BOW, label="bow")))
    bow = result.items[1].region
    assert "feature 2 was repaired: self-intersection" in result.notes_text
    # Both halves: left and right of the crossing.
    assert bow.mask[3, [0, 5]].tolist() == [True, True]
    assert bow.mask[0, 3] == bow.mask[5, 2] == np.False_


def test_parts_that_overlap_are_one_region_with_the_overlap(read):
    parts = [SQUARE, [[3, 2], [8, 2], [8, 6], [3, 6], [3, 2]], BOW]
    apart = read(geojson(*(feature(part) for part in parts))).items
    (together,) = read(geojson(feature([[part] for part in parts], "MultiPolygon"))).items
    expected = np.any([full(item.region, (7, 9)) for item in apart], axis=0)
    np.testing.assert_array_equal(full(together.region, (7, 9)), expected)


def test_properties_of_gis_software_are_names_ids_and_values(read):
    result = read(
        geojson(
            feature(SQUARE, fid=17, class_name="house", height_m=3.5),
            feature(SQUARE, fid=3, Class="tree"),
            feature(SQUARE, objectType="annotation", name="Annotation 5", label="lawn"),
        )
    )
    assert [item.label for item in result.items] == ["house", "tree", "lawn"]
    assert [item.source_id for item in result.items] == ["17", "3", ""]
    assert [dict(item.values) for item in result.items] == [
        {"height_m": 3.5},
        {},
        {"name": "Annotation 5"},
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"type": "FeatureCollection"', "is broken JSON"),
        ('{"type": "Topology", "arcs": []}', "TopoJSON .* convert it to GeoJSON"),
        ('{"type": "Blob"}', "neither COCO .* nor GeoJSON"),
        (geojson(), "contains no region"),
        ({"type": "FeatureCollection", "features": 5}, "could not be read as file of regions"),
    ],
)
def test_what_is_broken_is_refused_by_file_and_record(read, content, reason):
    with pytest.raises(InputError, match=f"theirs.json.*{reason}"):
        read(content)


def test_world_coordinates_need_the_image_they_belong_to(read, tmp_path):
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::25832"}}
    with pytest.raises(InputError, match="in world coordinates .*the image has no georeference"):
        read(geojson(feature(SQUARE), crs=crs))
    unknown = {"type": "name", "properties": {"name": "EPSG:1"}}
    with pytest.raises(InputError, match="in EPSG:1 and the image in EPSG:32632, and there is no"):
        read(geojson(feature(SQUARE), crs=unknown), geo=FIELD)
    written = Annotations(shape=(7, 7), items=(Annotation(region=RING),))
    with pytest.raises(InputError, match="no georeference; write GeoJSON in pixels"):
        write_geojson(written, tmp_path / "a.geojson", world=True)
