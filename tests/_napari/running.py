"""Let the jobs of a session run without a panel."""

from contextlib import contextmanager

from qtpy.QtCore import QObject

from napari_maskinversion._napari.workers.job_runner import JobRunner


@contextmanager
def running_jobs(session):
    """Run the jobs that are started in a block in threads, and drop those that still go on."""
    panel = QObject()
    runner = JobRunner(session.jobs, panel)
    runner.open()
    yield runner
    runner.close()


@contextmanager
def job_ends(qtbot, job):
    """Wait, after a block, for the end of a job that it starts."""
    ends = []

    def note():
        ends.append(job)

    job.ended.connect(note)
    yield
    qtbot.waitUntil(lambda: bool(ends))
    job.ended.disconnect(note)


def texts_of(job):
    """Return a list that gets what a job says from now on."""
    texts = []
    job.changed.connect(lambda: job.busy and texts.append(job.job.text))
    return texts
