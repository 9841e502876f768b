"""What a cache keeps, and what makes room."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from napari_maskinversion.base.lru_cache import LruCache


def kept(cache):
    return cache.values()


def test_the_value_used_least_recently_makes_room():
    cache = LruCache(2)
    cache.put("first", 1)
    cache.put("second", 2)
    assert cache.get("first") == 1  # now "second" has been used least recently
    cache.put("third", 3)
    assert cache.get("second") is None
    assert kept(cache) == [1, 3]


def test_looking_for_what_is_not_kept_changes_nothing():
    cache = LruCache(2)
    cache.put("first", 1)
    assert cache.get("second") is None
    assert kept(cache) == [1]


def test_a_value_that_is_put_again_is_replaced_and_counts_once():
    cache = LruCache(10, size=len)
    cache.put("name", "long text")
    cache.put("name", "short")
    cache.put("other", "12345")
    assert kept(cache) == ["short", "12345"]


def test_sizes_together_stay_below_the_limit():
    cache = LruCache(100, size=lambda array: array.nbytes)
    for number in range(5):
        cache.put(number, np.zeros(30, np.uint8))
    assert len(cache) == 3
    assert cache.get(1) is None
    assert cache.get(2) is not None


def test_the_newest_value_stays_though_it_is_larger_than_the_limit():
    cache = LruCache(100, size=lambda array: array.nbytes)
    cache.put("small", np.zeros(30, np.uint8))
    cache.put("huge", np.zeros(1000, np.uint8))
    assert [array.size for array in kept(cache)] == [1000]
    cache.put("small", np.zeros(30, np.uint8))
    assert [array.size for array in kept(cache)] == [30]


def test_room_is_made_before_a_value_exists():
    cache = LruCache(2)
    cache.put("first", 1)
    cache.put("second", 2)
    cache.make_room()
    assert kept(cache) == [2]
    cache.make_room()
    assert kept(cache) == [2]


def test_a_value_that_is_removed_leaves_its_room():
    cache = LruCache(10, size=len)
    cache.put("first", "12345")
    cache.put("second", "12345")
    cache.remove("first")
    cache.remove("never kept")
    cache.put("third", "12345")
    assert kept(cache) == ["12345", "12345"]
    cache.clear()
    assert not len(cache)
    cache.put("fourth", "1234567890")
    assert kept(cache) == ["1234567890"]


@given(
    st.lists(st.tuples(st.sampled_from(["get", "put", "remove"]), st.integers(0, 6))),
    st.integers(1, 12),
)
def test_it_keeps_what_a_plain_list_of_uses_says(steps, limit):
    """The newest values, as many as fit, whatever was put, got and removed before."""
    cache, used = LruCache(limit, size=lambda number: number + 1), []
    for what, number in steps:
        if what == "put":
            cache.put(number, number)
        elif what == "get":
            assert (cache.get(number) == number) == (number in used)
        else:
            cache.remove(number)
        was_kept = number in used
        used = [other for other in used if other != number]
        if what == "put" or (what == "get" and was_kept):
            used.append(number)
        while sum(other + 1 for other in used) > limit and len(used) > 1:
            used.pop(0)
        assert kept(cache) == used
