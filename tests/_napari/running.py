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
