"""A disk that fills while a file is being written."""

import signal
import tempfile
from contextlib import contextmanager

import pytest


@contextmanager
def full_after(size, *, file=1):
    """Let no file of this process grow beyond ``size`` bytes, from the ``file``-th temporary one.

    The system itself refuses, in the middle of a write, whoever writes: Python, C or C++.
    """
    resource = pytest.importorskip("resource", reason="only Unix limits the size of files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    real, made = tempfile.mkstemp, []

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    def counted(*arguments, **options):
        made.append(1)
        if len(made) == file:
            limit()
        return real(*arguments, **options)

    tempfile.mkstemp = counted
    if file == 0:
        limit()
    try:
        yield
    finally:
        tempfile.mkstemp = real
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
