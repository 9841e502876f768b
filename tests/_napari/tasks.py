"""Do the task of a worker here and now, without a window."""

from unittest.mock import patch

from napari_maskinversion.app.work import driver


def do(work, stop=lambda value: False):
    """Return what a task returns (None if it was stopped before) and what it shows.

    It is stopped after the first value shown of which ``stop`` says so.
    """
    task, told = driver.Task(work), []

    def tell(_, value):
        told.append(value)
        task.stop = task.stop or (not isinstance(value, driver.Outcome) and stop(value))

    queue = driver.TaskQueue(tell, "The work")
    queue.add(task)
    with patch.object(driver, "INTERVAL", 0.0):
        queue.drive()
    *shown, outcome = told
    assert not outcome.failure, outcome.failure
    return next(iter(outcome.results), None), shown
