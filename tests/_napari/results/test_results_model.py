"""The panel's table and the layer's features show the columns of the one list."""

from dataclasses import replace

import numpy as np
import pytest
from napari.layers import Labels
from qtpy.QtCore import Qt
from qtpy.QtGui import QColor

from napari_maskinversion._napari.results.export_controller import feature_columns
from napari_maskinversion._napari.results.results_model import ResultsModel
from napari_maskinversion._napari.results.results_widget import ResultsWidget, sizes
from napari_maskinversion.app.layer_input.layer_features import FeatureWriter
from napari_maskinversion.app.session import (
    RegionOrder,
    RegionPlace,
    ResultRecord,
    Session,
    SimilarRegion,
)
from napari_maskinversion.base.identity import ImagePlace, RegionKey
from napari_maskinversion.results import columns
from tests.results.export.bundles import make_bundle
from tests.results.test_columns import DOUBLE


@pytest.fixture
def results(monkeypatch):
    monkeypatch.setattr(columns, "COLUMNS", [*columns.COLUMNS, DOUBLE])
    return make_bundle().results


def test_a_column_that_is_added_to_the_list_is_in_the_panel(results, qapp):
    model = ResultsModel(Session())
    model.set_frame(results.to_frame())
    last = next(place for place, one in enumerate(model.columns) if one.name == "double_id")
    roles = Qt.ItemDataRole
    titles = [
        model.headerData(last, Qt.Orientation.Horizontal, role)
        for role in (roles.DisplayRole, roles.ToolTipRole)
    ]
    assert titles == ["Double", "Twice the id"]
    assert [model.data(model.index(row, last)) for row in range(4)] == ["2", "4", "6", "8"]


@pytest.fixture
def table(results, qapp):
    """The table of a session that shows results, and a function that reads a cell."""
    session = Session()
    widget = ResultsWidget(session)
    widget.follow()
    session.show(ResultRecord(results=results, snapshot=session.run.snapshot()))

    def cell(row, name, role=Qt.ItemDataRole.DisplayRole):
        column = next(at for at, one in enumerate(widget.model.columns) if one.name == name)
        return widget.model.data(widget.model.index(row, column), role)

    yield session, widget, cell
    widget.stop()


def test_confidence_comes_before_figures_which_can_be_added(table):
    _, widget, cell = table
    shown = [one for one, action in widget.columns.actions.items() if action.isChecked()]
    assert shown == ["region", "suggestion", "probability", "status", "double_id"]
    assert {"similarity", "margin", "iou", "area_px"} <= set(widget.columns.actions)
    menu = widget.columns.menu
    assert menu.sizeHint().width() < 360  # the panel's own width
    assert widget.columns.actions["iou"].toolTip()
    assert menu.toolTipsVisible()
    share = widget.results.regions[0].ranking.probabilities[0]
    assert cell(0, "probability") == f"{share:.0%}".replace("%", " %")
    assert widget.bars._rows[0][1] == pytest.approx(share)  # the same number


@pytest.mark.parametrize(
    ("area", "shown"),
    [(85_580.4, "85,580 m²"), (1e7, "10,000,000 m²"), (106.54, "106.5 m²"), (2e-5, "0.00002 m²")],
)
def test_sizes_are_written_as_people_write_numbers(area, shown):
    row = {"region": 3, "area_px": 12_345, "height_px": 5, "width_px": 6, "merged": ""}
    row |= {"unit": "m", "area": area, "height": 12_000.5, "width": 0.5}
    assert sizes(row, ()) == (f"Region 3: 12,345 px, 5 x 6 px; {shown}, 12,000 x 0.5 m")


def test_a_word_has_its_colour_and_none_of_these_has_none(table):
    session, _, cell = table
    chip = Qt.ItemDataRole.DecorationRole
    words = [region.suggestion for region in session.run.results.regions]
    colors = [cell(row, "suggestion", chip) for row in range(4)]
    named = dict(zip(words, colors, strict=True))
    assert len({color.name() for color in named.values()}) == len(named)
    assert named.get("Äpfel, rote", QColor("#ff8000")).name() == "#ff8000"
    assert cell(0, "probability", chip) is None


def test_rows_of_changed_regions_are_grey_and_of_a_changed_image_all(table):
    session, _, cell = table

    def grey():
        role = Qt.ItemDataRole.ForegroundRole
        return [row for row in range(4) if cell(row, "suggestion", role) is not None]

    assert grey() == []
    session.run.changed_regions = frozenset({RegionKey(2, ()), RegionKey(9, ())})
    assert grey() == [1]
    assert "changed" in cell(1, "region", Qt.ItemDataRole.ToolTipRole)
    session.run.image_changed = True
    assert grey() == [0, 1, 2, 3]
    session.show(session.run.record.changed(snapshot=session.run.snapshot()))  # the next run
    assert grey() == []


def test_a_column_that_is_added_to_the_list_is_in_the_features_of_the_layer(results):
    layer = Labels(np.arange(5, dtype=np.uint8)[None])
    columns = feature_columns(results.to_frame(), "image", decisions={})
    assert "double_id" in FeatureWriter(layer).write(columns)
    features = layer.features.set_index("index")
    assert features.loc[[1, 2, 3, 4], "double_id"].tolist() == [2, 4, 6, 8]


def order_of(session, similarities):
    """A search that has compared regions of the image shown, the most similar first."""
    regions, hits = session.run.results.regions, []
    for region, similarity in zip(regions, similarities, strict=False):
        place = RegionPlace("", region.key, ImagePlace(""), region.bbox)
        hits.append(SimilarRegion(place, similarity))
    hits.sort(key=lambda hit: -hit.similarity)
    return RegionOrder(looked_for="cat", about="", source="This image", hits=tuple(hits))


def test_a_search_sorts_the_rows_and_the_selection_stays(table):
    session, widget, cell = table
    ids = [region.id for region in session.run.results.regions]
    assert len(ids) == 4
    session.review.rows = (1, 2)
    session.select(2)
    session.review.rows = (1, 2)
    session.explore.order = order_of(session, [0.1, 0.2, 0.4])  # the last one was not compared
    assert [cell(place, "region") for place in range(4)] == [str(ids[n]) for n in (2, 1, 0, 3)]
    assert [cell(place, "likeness") for place in range(4)] == [
        *("0.400", "0.200", "0.100"),
        "\N{EN DASH}",
    ]
    assert (widget.row, session.review.row) == (2, 2)
    assert session.review.rows == (1, 2)
    assert session.review.picked
    assert widget.table.currentIndex().row() == 0
    assert sorted(one.row() for one in widget.table.selectionModel().selectedRows()) == [0, 1]
    # What is selected elsewhere is selected where it stands now, and the other way round.
    session.select(3)
    assert widget.table.currentIndex().row() == 3
    widget.table.selectRow(1)
    assert session.review.row == 1
    assert not widget.table.isColumnHidden(len(widget.model.columns) - 1)
    session.explore.order = None
    assert [cell(place, "region") for place in range(4)] == [str(number) for number in ids]
    assert widget.table.currentIndex().row() == session.review.row == 1
    assert widget.table.isColumnHidden(len(widget.model.columns) - 1)


def test_a_search_that_knows_no_region_of_the_image_leaves_the_table_alone(table):
    session, widget, _ = table
    order = order_of(session, [0.1, 0.2, 0.4, 0.3])
    redrawn = [
        SimilarRegion(replace(hit.place, box=(0, 0, 1, 1)), hit.similarity) for hit in order.hits
    ]
    session.explore.order = replace(order, hits=tuple(redrawn))
    assert not widget.model.is_sorted
    assert not widget.usual.isVisibleTo(widget)
    session.explore.order = order
    assert widget.model.is_sorted
    session.show(replace(session.run.record, results=make_bundle().results))  # with other limits
    assert widget.model.is_sorted
