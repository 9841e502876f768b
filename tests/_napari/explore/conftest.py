"""The sample scene and its results, without a window."""

import pytest
from napari.components import ViewerModel

from napari_maskinversion._napari.explore.work_section import Shared
from napari_maskinversion._napari.layers.results_on_canvas import ResultsOnCanvas
from napari_maskinversion._napari.plugin.commands import everyday_1
from napari_maskinversion.app.layer_input.coordinates import Grid, ViewPoint
from napari_maskinversion.app.layer_input.run_input import PlaneFinder
from napari_maskinversion.app.session import ResultRecord, Session
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.engine.models.backbone import Backbone
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.pipeline.labelling import label_regions
from tests._napari.images.conftest import computed, computed_once, one_model, panel  # noqa: F401
from tests._napari.running import running_jobs
from tests.scenes import demo_model


@pytest.fixture(scope="session")
def results():
    scene = load_scene("everyday-1")
    labels = ["grapes", "airplane", "house", "frog"]
    return label_regions(scene.image, scene.regions, labels, model=demo_model())


@pytest.fixture
def shared(qapp, monkeypatch):
    """What sections work with: a viewer with the scene, its session, the bundled model."""
    monkeypatch.setattr(ModelStore, "get", lambda self, name, device: demo_model())
    viewer, session = ViewerModel(), Session()
    for data, options, kind in everyday_1():
        getattr(viewer, f"add_{kind}")(data, **options)
    image, regions = viewer.layers
    session.choose(image=image, regions=regions)
    session.run.change_settings({"model": "demo", "device": "cpu", "inversion.steps": 1})
    with running_jobs(session):
        yield Shared(viewer, session, ResultsOnCanvas(viewer), ModelStore())


@pytest.fixture
def show(shared, results):
    """Show the results of the scene; again, they are those of another run."""

    def show_them():
        viewer, session = shared.viewer, shared.session
        view = ViewPoint.of(viewer)
        image, regions = (Grid.of(layer, view) for layer in session.run.layers)
        finder = PlaneFinder(view, image, regions, all_planes=False)
        record = ResultRecord(results=results, snapshot=session.run.snapshot(), finder=finder)
        session.show(record.changed(settled=True))

    return show_them


@pytest.fixture
def section(shared, qtbot):
    """Make a section that follows the session, and stop it in the end."""
    made = []

    def make(kind):
        one = kind(shared)
        qtbot.addWidget(one.section)
        one.follow()
        made.append(one)
        return one

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def finished(qtbot):
    """Wait until a section has ended its work."""

    def wait(one, seconds=60):
        qtbot.waitUntil(lambda: not one.job.busy, timeout=seconds * 1000)

    return wait


@pytest.fixture
def counted(monkeypatch):
    """Sentences that were embedded, and runs that were made."""
    from napari_maskinversion.pipeline import run as pipeline

    seen = {"sentences": 0, "runs": []}
    encode, run = Backbone.encode_text, pipeline.run_planes

    def encode_text(self, texts):
        seen["sentences"] += len(texts)
        return encode(self, texts)

    def run_planes(model, tasks, vocabulary, config, **options):
        seen["runs"].append(config.inversion)
        return run(model, tasks, vocabulary, config, **options)

    monkeypatch.setattr(Backbone, "encode_text", encode_text)
    monkeypatch.setattr(pipeline, "run_planes", run_planes)
    return seen
