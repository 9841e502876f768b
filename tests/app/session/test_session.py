"""What the user sees and has chosen, without a window."""

import gc
import weakref

import pytest

from napari_maskinversion.app.session import (
    Action,
    NextStep,
    ResultRecord,
    RunState,
    Scope,
    Session,
    Topic,
    next_step,
    session_of,
    staleness,
)
from napari_maskinversion.app.work.driver import Job
from napari_maskinversion.engine.settings import InversionConfig
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.language.ranking.uncertainty import UncertaintyConfig
from napari_maskinversion.results.results import Results

from ..._napari.made import made_info, made_region

ANIMALS = Vocabulary(("cat", "dog"))


class Layer:
    """Stands in for a layer: the session compares layers by identity."""

    name = "layer"


def results_of(vocabulary=ANIMALS, count=3, settings=None):
    info = made_info(vocabulary, settings or Session().run.settings)
    return Results(info, tuple(made_region(number + 1) for number in range(count)))


class Viewer:
    """The layers of a viewer, offered to a session as they come and go."""

    def __init__(self, session):
        self.session, self.images, self.regions = session, [], []

    def add(self, *, image=False):
        layer = Layer()
        (self.images if image else self.regions).append(layer)
        self.session.offer(self.images, self.regions, layer)
        return layer

    def remove(self, layer):
        for layers in (self.images, self.regions):
            layers[:] = [one for one in layers if one is not layer]
        self.session.offer(self.images, self.regions)


class Follower(Topic):
    """A part of the panel."""

    def __init__(self, session):
        self._session = session


@pytest.fixture
def session():
    return Session()


@pytest.fixture
def viewer(session):
    return Viewer(session)


def run(session, count=3, total=None):
    """Run to the end, or to a Cancel."""
    snapshot = session.run.snapshot()
    session.begin_run(snapshot)
    results = results_of(session.run.vocabulary, count, session.run.settings)
    record = ResultRecord(results=results, snapshot=snapshot, total=total or count)
    shown = session.show(record)
    ended = "done" if total in (None, count) else "cancelled"
    session.run.progress = RunState(ended, job=Job(done=count, total=total or count))
    return record, shown


@pytest.fixture
def ready(session, viewer):
    """An image with regions, and words."""
    viewer.add(image=True)
    viewer.add()
    session.run.region_count, session.run.vocabulary = 3, ANIMALS
    return viewer


# -- flows ------------------------------------------------------------------------------------


def test_an_own_photograph_is_unknown_to_the_demo_until_another_model_is_chosen(session, viewer):
    photograph = viewer.add(image=True)
    assert not session.run.image_unknown
    session.run.doubt = session.run.snapshot()  # as the worker answers that shows it to the model
    assert session.run.image_unknown
    assert next_step(session) is NextStep.DRAW_REGIONS  # a warning, not a refusal
    sample = viewer.add(image=True)
    assert session.run.image is sample
    assert not session.run.image_unknown
    session.choose(image=photograph)
    assert session.run.image_unknown
    session.run.change_settings({"device": "cpu", "inversion.alpha": 5.0})
    assert session.run.image_unknown
    session.run.change_settings({"model": "ViT-B-16/openai"})
    assert not session.run.image_unknown


def test_changed_words_make_the_results_stale_and_the_old_words_fresh_again(session, ready):
    run(session)
    assert not staleness(session)
    session.run.vocabulary = Vocabulary(("cat", "horse"))
    assert staleness(session).text == "words changed: update"
    assert next_step(session) is NextStep.UPDATE
    session.run.vocabulary = None  # half typed: nothing to update to
    assert next_step(session) is NextStep.CHOOSE_WORDS
    session.run.vocabulary = Vocabulary(("cat", "dog"), threshold=0.3, groups=("pets", "pets"))
    assert not staleness(session)


def test_changed_regions_and_settings_are_named(session, ready):
    run(session)
    session.run.changed_regions = frozenset({1, 2, 9})
    session.run.settings = session.run.settings.changed({"inversion.alpha": 5.0})
    assert staleness(session).text == "settings, 3 regions changed: update"
    session.run.live = True
    assert next_step(session) is NextStep.REVIEW  # live mode updates by itself


@pytest.mark.parametrize(
    "change",
    [{"device": "cpu"}, {"chunk_size": 3}, {"unsure": UncertaintyConfig(overlap=0.5)}],
)
def test_settings_that_change_no_embedding_leave_the_results_fresh(session, ready, change):
    run(session)
    session.run.settings = session.run.settings.changed(change)
    assert not staleness(session)


def test_another_choice_of_regions_makes_the_results_stale_and_the_old_one_fresh_again(
    session, ready
):
    run(session)
    session.run.scope = Scope(limited=True, ids="1, 2")
    assert staleness(session).text == "choice of regions changed: update"
    assert next_step(session) is NextStep.UPDATE
    session.run.scope = Scope(ids="1, 2", merge=True)  # typed, but all regions are chosen
    assert not staleness(session)
    session.run.scope = Scope(planes="each")
    assert staleness(session).scope
    session.run.scope = Scope(channels="displayed")
    assert staleness(session).text == "image changed: update"
    session.run.scope = Scope()
    session.run.others_picked = True  # in the layer, for a run of what is selected there
    assert staleness(session).text == "choice of regions changed: update"


def test_results_of_a_file_do_not_say_in_which_layers_their_image_was_shown(session, ready):
    record, _ = run(session)
    session.show(record.changed(reopened=True))
    session.run.scope = Scope(channels="displayed")
    assert not staleness(session)
    session.show(record)
    assert staleness(session).text == "image changed: update"


def test_the_choice_of_regions_comes_back_with_an_image_and_is_not_taken_to_another(session, ready):
    session.run.scope = Scope(limited=True, ids="1, 2", channels="displayed")
    run(session, 2)
    image, other, cells = session.run.image, ready.add(image=True), ready.add()
    session.choose(image=other, regions=cells)
    assert session.run.scope == Scope(channels="displayed")
    session.choose(image=image)
    assert session.run.scope == Scope(limited=True, ids="1, 2", channels="displayed")
    assert not staleness(session)


def test_what_has_changed_of_an_image_is_known_when_it_comes_back(session, ready):
    run(session)
    session.run.image_changed, session.run.changed_regions = True, frozenset({2})
    image, other, cells = session.run.image, ready.add(image=True), ready.add()
    session.choose(image=other, regions=cells)
    assert not staleness(session)
    session.choose(image=image)
    assert staleness(session).text == "image, 1 region changed: update"
    run(session)
    assert not staleness(session)


def test_after_cancel_the_next_step_is_the_rest(session, ready):
    record, _ = run(session, 2, total=5)
    assert next_step(session) is NextStep.CONTINUE
    assert session.run.missing == 3
    session.run.changed_regions = frozenset({1})
    assert next_step(session) is NextStep.UPDATE
    session.run.changed_regions = frozenset()
    session.run.live = True  # it computes them by itself
    assert next_step(session) is NextStep.REVIEW
    session.run.live = False
    session.show(record.changed(results=results_of(count=5)))
    assert next_step(session) is NextStep.REVIEW


# -- layers -----------------------------------------------------------------------------------


def test_the_newest_layer_is_chosen_until_the_user_chooses_one(session, viewer):
    first = viewer.add(image=True)
    second = viewer.add(image=True)
    assert session.run.image is second
    session.choose(image=first)
    viewer.add(image=True)
    assert session.run.image is first


def test_an_image_that_is_added_does_not_take_the_place_of_one_with_results(session, ready):
    record, _ = run(session)
    image, regions = session.run.image, session.run.regions
    viewer_image, viewer_regions = ready.add(image=True), ready.add()
    assert (session.run.image, session.run.regions) == (image, regions)
    assert session.run.record is record
    assert viewer_image is not session.run.image
    assert viewer_regions is not session.run.regions


def test_layers_that_are_added_during_a_run_do_not_take_the_place_of_its_own(session, ready):
    layers = session.run.layers
    session.begin_run(session.run.snapshot())
    ready.add(image=True)
    ready.add()
    assert session.run.layers == layers


def test_results_of_live_mode_keep_their_image_but_new_regions_are_taken(session, ready):
    image = session.run.image
    record = ResultRecord(results=results_of(), snapshot=session.run.snapshot(), live=True)
    session.show(record)
    ready.add(image=True)
    assert session.run.image is image
    assert session.run.record is record
    session.status.notice = None  # of the new image
    drawn = ready.add()
    assert session.run.regions is drawn


def test_regions_that_were_removed_are_not_chosen_again_with_their_image(session, ready):
    run(session)
    image, regions = session.run.image, session.run.regions
    other, cells = ready.add(image=True), ready.add()
    ready.remove(regions)
    session.choose(image=other, regions=cells)
    session.choose(image=image)
    assert session.run.regions is None  # nor are those of the other image
    assert session.run.record is None


def test_a_new_run_clears_what_was_refused_before(session, ready):
    session.say("Not enough memory.", "error")
    session.begin_run(session.run.snapshot())
    assert session.status.notice is None


def test_choosing_the_first_image_again_brings_back_its_regions_and_results(session, ready):
    record, _ = run(session)
    image, regions = session.run.image, session.run.regions
    session.review.row = 2
    other, cells = ready.add(image=True), ready.add()
    session.choose(image=other, regions=cells)
    assert session.run.record is None
    assert session.review.row == -1
    assert next_step(session) is NextStep.SUGGEST
    heard = []
    session.review.events.row.connect(lambda row: heard.append((row, session.run.record)))
    session.run.events.record.connect(lambda now: heard.append((session.review.row, now)))
    session.choose(image=image)
    assert heard == [(2, record)] * 2  # never a row of other results
    assert session.run.regions is regions


def test_the_last_layers_take_the_place_of_chosen_ones_that_are_removed(session, viewer):
    first, second = viewer.add(image=True), viewer.add(image=True)
    session.choose(image=first)
    viewer.remove(first)
    assert session.run.image is second
    third = viewer.add(image=True)
    assert session.run.image is third  # the choice went with its layer


def test_results_stay_until_another_image_takes_the_place_of_a_removed_one(session, ready):
    record, _ = run(session)
    image = session.run.image
    ready.remove(image)
    assert session.run.record is record
    assert next_step(session) is NextStep.OPEN_SAMPLE
    ready.add(image=True)
    assert session.run.record is None


def test_layers_are_held_weakly(session, ready):
    run(session)
    ready.images.clear()
    ready.regions.clear()
    gc.collect()
    assert session.run.image is None
    assert session.run.regions is None
    assert session.run.record.snapshot.image is None


def test_a_second_image_is_named_with_a_button_that_chooses_it(session, ready):
    first, _ = session.run.image, run(session)
    second = ready.add(image=True)
    assert session.run.image is first
    assert session.status.notice.text == "Image 'layer' was added; 'layer' stays chosen."
    assert session.status.notice.action is Action.SWITCH_LAYER
    session.choose(image=session.choice.added())
    assert session.run.image is second
    assert session.status.notice is None
    with session.choice.kept():  # a layer that the panel adds
        ready.add(image=True)
    assert session.status.notice is None
    ready.remove(second)
    del second
    gc.collect()
    assert session.choice.added() is None


def test_regions_are_not_taken_to_an_image_that_was_added_later(session, ready):
    regions, _ = session.run.regions, run(session)
    second = ready.add(image=True)
    session.choose_added()
    session.offer(ready.images, ready.regions)  # some other layer has come
    assert session.run.layers == (second, None)
    assert next_step(session) is NextStep.DRAW_REGIONS
    drawn = ready.add()  # offered at once
    assert session.run.regions is drawn
    ready.remove(drawn)
    assert session.run.layers == (second, None)
    session.choose(regions=regions)  # unless the user says so
    assert session.run.layers == (second, regions)


def test_a_new_image_nobody_chose_brings_no_regions_of_the_one_before(session, ready):
    ready.add()  # these belong to the first image, too
    second = ready.add(image=True)
    assert session.run.layers == (second, None)


def test_regions_that_come_with_an_image_wait_for_it_and_do_not_lie_on_the_chosen_one(
    session, ready
):
    session.choose(image=session.run.image)
    first = session.run.layers
    second, its_regions = ready.add(image=True), ready.add()
    assert session.run.layers == first
    session.choose_added()
    assert session.run.layers == (second, its_regions)


def test_channels_share_their_regions(session, viewer):
    red, green = viewer.add(image=True), viewer.add(image=True)
    regions = viewer.add()
    green.blending = "additive"  # the lower one is none
    session.choose(image=red)
    assert session.run.layers == (red, regions)
    other = viewer.add(image=True)
    session.choose(image=other)
    assert session.run.layers == (other, None)


def test_regions_that_are_drawn_beside_those_with_results_are_offered(session, ready):
    run(session)
    drawn = ready.add()
    assert session.run.regions is not drawn
    assert session.status.notice.text == "Layer 'layer' was added; 'layer' stays chosen."
    session.choose_added()
    assert session.run.regions is drawn
    assert session.status.notice is None


# -- workers ----------------------------------------------------------------------------------


def test_a_snapshot_stays_as_it_was(session, ready):
    before = session.run.snapshot()
    image, regions = session.run.layers
    session.choose(image=ready.add(image=True), regions=regions)
    session.run.vocabulary = Vocabulary(("fish",))
    assert before.image is image
    assert before.vocabulary is ANIMALS
    assert not session.run.matches(before)
    assert not session.run.matches(before, "vocabulary")
    assert session.run.matches(before, "regions", "settings", "scope")
    with pytest.raises(AttributeError):
        before.vocabulary = None


def test_a_run_does_not_keep_the_results_that_it_replaces(session, ready):
    kept = [weakref.ref(run(session)[0].results.regions[0].raw_embedding) for _ in range(4)]
    gc.collect()
    assert [one() is None for one in kept] == [True, True, True, False]


def test_results_of_layers_that_are_not_chosen_any_more_are_kept_but_not_shown(session, ready):
    image = session.run.image
    snapshot = session.run.snapshot()
    session.begin_run(snapshot)
    session.choose(image=ready.add(image=True))
    late = ResultRecord(results=results_of(), snapshot=snapshot)
    assert not session.show(late)
    assert session.run.record is None
    session.choose(image=image)
    assert session.run.record is late


@pytest.mark.parametrize("held", [True, False])
def test_results_whose_regions_were_removed_meanwhile_are_shown_until_others_are_chosen(
    session, ready, held
):
    regions = session.run.regions
    snapshot = session.run.snapshot()
    session.begin_run(snapshot)
    ready.remove(regions)
    if not held:
        del regions
        gc.collect()
    late = ResultRecord(results=results_of(), snapshot=snapshot)
    assert session.show(late)
    assert session.run.record is late
    ready.add()
    assert session.run.record is None
    assert not session.show(late)


def test_row_and_decisions_stay_with_the_results_of_the_same_run_only(session, ready):
    record, _ = run(session)
    session.review.row, session.review.decided_count, session.run.changed_regions = (
        1,
        2,
        frozenset({1}),
    )
    session.show(record.changed(results=results_of(count=4)))
    assert (session.review.row, session.review.decided_count) == (1, 2)
    run(session)
    assert (session.review.row, session.review.decided_count, session.run.changed_regions) == (
        -1,
        0,
        frozenset(),
    )


# -- events -----------------------------------------------------------------------------------


def test_followers_hear_of_changes_once_and_not_of_equal_values(session, viewer):
    heard = []
    follower = Follower(session)
    changed = session.run.events.image, session.run.events.settings
    follower.after(lambda *_: heard.append("changed"), *changed)
    follower.after(heard.append, session.status.events.notice)
    image = viewer.add(image=True)
    session.offer([image], [])
    session.run.settings = session.run.settings.changed({"inversion": InversionConfig()})
    session.say("Open an image.", "error", "open")
    assert heard == ["changed", session.status.notice]
    follower.stop()
    session.say("")
    assert session.status.notice is None
    assert len(heard) == 2


def test_forgotten_results_do_not_come_back(session, ready):
    run(session)
    image = session.run.image
    session.forget_results()
    assert session.run.record is None
    session.choose(image=ready.add(image=True))
    session.choose(image=image)
    assert session.run.record is None


def test_each_viewer_has_one_session_that_ends_with_it():
    from napari_maskinversion.app.session import session as module

    class Proxy:
        def __init__(self, viewer):
            self.__wrapped__ = viewer

    one, other = Layer(), Layer()
    assert session_of(one) is session_of(Proxy(one))
    assert session_of(one) is not session_of(other)
    place = id(one)
    del one
    gc.collect()
    assert place not in module._SESSIONS


def test_what_one_part_asks_reaches_those_that_answer_it_and_no_others():
    session, heard = Session(), []
    follower = Follower(session)
    follower.after(lambda words: heard.append(("vocabulary", words)), session.run.take_words)
    follower.after(lambda _: heard.append("review"), session.review.decide)
    for _ in range(2):  # the same once more is another request
        session.run.take_words.emit(("cat",))
    assert heard == [("vocabulary", ("cat",))] * 2
    follower.stop()
    session.run.take_words.emit(("dog",))
    assert len(heard) == 2
