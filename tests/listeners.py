"""Listen to work: what it tells, and what happens meanwhile."""

from itertools import count

import pytest

from napari_maskinversion.base.errors import Cancelled
from napari_maskinversion.base.progress import listening


def collect(work):
    """Return what work tells, and what it returns."""
    news = []
    with listening(news.append):
        result = work()
    return news, result


def at(number, act):
    """Return a listener that acts when something is told for the so-manieth time, from 1."""
    numbers = count(1)
    return lambda news: act(news) if next(numbers) == number else None


def stopped(work, number=1):
    """Stop work when it tells something for the so-manieth time; return what it told."""
    news = []

    def stop(one):
        news.append(one)
        if len(news) == number:
            raise Cancelled("Stopped.")

    with pytest.raises(Cancelled), listening(stop):
        work()
    return news
