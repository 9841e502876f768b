"""CUDA graphs: what PyTorch is asked for; without a GPU."""

from functools import cache

import pytest
import torch

from napari_maskinversion.engine.compute import cuda_graphs


def test_recording_keeps_the_rules_of_cuda(monkeypatch):
    """On a stream of its own, which waits for the work before, and is waited for; closed always."""
    said, pools, error = [], [], RuntimeError("not permitted")

    class Stream:
        def __init__(self, device):
            self.device = device

        def wait_stream(self, other):
            said.append("own waits" if isinstance(other, str) else "default waits")

        def __enter__(self):
            said.append("own stream")

        def __exit__(self, *_):
            said.append("default stream")

    class Recording:
        def capture_begin(self, pool, capture_error_mode):
            said.append(capture_error_mode)
            pools.append(pool)

        def pool(self):
            return self

        def capture_end(self):
            said.append("end")

        def replay(self):
            said.append("replay")

    class Default(str):
        def wait_stream(self, other):
            said.append("default waits")

    def fails():
        raise error

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recording)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Default(device))
    monkeypatch.setattr(cuda_graphs, "_stream", cache(cuda_graphs._stream.__wrapped__))
    monkeypatch.setattr(cuda_graphs, "_keeper", cache(cuda_graphs._keeper.__wrapped__))
    monkeypatch.setattr(torch, "zeros", lambda *_, device: said.append("kept"))
    graph, other = (cuda_graphs.CudaGraph("cuda:1") for _ in range(2))
    graph.record(lambda: said.append("work"))
    around = ["own waits", "own stream", "thread_local", "{}", "end", "default stream"]
    around.append("default waits")
    assert said == [one.format(work) for work in ("kept", "work") for one in around]
    said.clear()
    with pytest.raises(RuntimeError) as raised:
        other.record(fails)
    assert raised.value is error
    assert said == [one for one in around if one != "{}"]
    # What steps allocate lies in the memory of a graph that stays.
    assert pools == [None, *[cuda_graphs._keeper("cuda:1")._graph] * 2]
    said.clear()
    graph.repeat()
    assert said == ["own waits", "own stream", "replay", "default stream", "default waits"]


def test_what_one_stream_copies_is_not_overwritten_by_another(monkeypatch):
    """Who takes recorded work waits for it, and what comes later for who has kept it."""

    class Stream:
        def __init__(self, name):
            self.name, self.after = str(name), set()  # what it has been told to wait for

        def wait_stream(self, other):
            self.after |= {other.name} | other.after

    first, second, model = Stream("first"), Stream("second"), torch.nn.Identity()
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(cuda_graphs, "_stream", cache(cuda_graphs._stream.__wrapped__))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: first)
    assert cuda_graphs.take(model, "encoding", 1, "cuda") is None
    cuda_graphs.keep(model, "encoding", 1, "work", "cuda")
    own = cuda_graphs._stream("cuda")
    assert "first" in own.after
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: second)
    assert cuda_graphs.take(model, "encoding", 1, "cuda") == "work"
    assert {"cuda", "first"} <= second.after
