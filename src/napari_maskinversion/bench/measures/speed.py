"""How fast this machine is: whole images, one large image, many small ones, and agreement."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import open_clip
import torch
from numpy.typing import NDArray
from open_clip.model import CLIP
from PIL import Image

from ...base.errors import InputError
from ...base.regions import Region, Regions
from ...batch.batch_model_sharing import RunTasks
from ...batch.image_task import ImageTask
from ...engine.compute.cuda_graphs import GRAPHS, CudaGraph
from ...engine.compute.matmul import has_precision
from ...engine.compute.trial import Trial
from ...engine.explain.fused import KERNELS, PRODUCTS
from ...engine.invert.inverter import MaskInverter
from ...engine.models.backbone import Backbone
from ...engine.models.loading import load_model, wrap_open_clip
from ...engine.models.specs import DEMO
from ...engine.settings import InversionConfig
from ...images.sample_scenes import load_scene, sample_folder
from ...language.labels.vocabulary import Vocabulary
from ...pipeline.labelling import label_regions
from ...results.settings import RunSettings
from .figures_file import Figures, Tell

PRECISIONS: Final = ("float32", "tf32", "bfloat16", "float16")
ROUTES: Final = ("direct", "decomposed", "fast")
REPEATS: Final = 5
WARMING: Final = 2  # images of a shape until the encoding is recorded
FEW: Final = 10  # regions or images of a first timing
PLANE: Final = (3072, 4096)  # pixels of the large image
WORDS: Final = tuple(f"{word} {i}" for i in range(8) for word in ("house", "road", "tree", "water"))
# What a GPU may compute with; some rows are measured without each. Products are float32's alone.
EXTRAS: Final = {"graphs": GRAPHS, "kernels": KERNELS, "products": PRODUCTS}
SHAPE: Final = ("image_size", "layers", "width", "head_width", "patch_size")
TEXT: Final = {"context_length": 8, "vocab_size": 64, "width": 32, "heads": 2, "layers": 1}


@dataclass(frozen=True, kw_only=True)
class SpeedPlan:
    """What is measured, and on which device."""

    device: str
    architecture: str  # of open_clip, with random weights; or the bundled model
    side: int  # pixels of the whole images
    masks: tuple[int, ...]  # in a whole image
    regions: int  # of the large image
    images: int  # of the batch
    reference: str  # the repository's folder of what the published code gives
    minutes: float  # for everything

    def parts(self) -> Iterator[tuple[str, Callable[[Tell], Figures]]]:
        """Yield the rows: the name of a table and what tells them apart, and what measures them."""
        names = []
        for name in PRECISIONS:
            if has_precision(name, torch.device(self.device)):
                names.append(name)
        models = dict.fromkeys((self.architecture, DEMO))
        large = [*product(models, [name for name in names if name in ("float32", "bfloat16")])]
        whole = [*product(self.masks, names)]
        without: list[tuple[str, int, str]] = []
        if CudaGraph.suits(torch.device(self.device)):
            ends = dict.fromkeys((min(self.masks), max(self.masks)))
            rows_of = product(EXTRAS, ends, [name for name in names if name != "tf32"])
            without = []
            for row in rows_of:
                if row[0] != "products" or row[2] == "float32":
                    without.append(row)
        share = 60 * self.minutes / (len(whole) + len(without) + 2 * len(large))  # s of a row
        rows: list[tuple[str, Callable[..., Figures], Any]]
        rows = [("agreement", self._agreement, row) for row in product(names, ROUTES)]
        rows += [("encoding", self._encoding, (name,)) for name in names if name != "tf32"]
        rows += [("whole", partial(self._whole, share), row) for row in whole]
        rows += [("without", partial(self._without, share), row) for row in without]
        rows += [("large", partial(self._large, share), row) for row in large]
        rows += [("batch", partial(self._batch, share), row) for row in large]
        for table, measure, row in rows:
            yield "/".join(map(str, (table, *row))), partial(measure, *row)

    def _agreement(self, precision: str, route: str, _: Tell) -> Figures:
        off = []
        maps = []
        for clip, image, masks, config, expected in _cases(Path(self.reference)):
            config = config.changed(precision=precision)
            if route == "fast":
                config = config.changed(fast=True)
            else:
                config = config.changed(route=route)
            result = _inverted(clip.to(self.device), image, masks, config)
            a = torch.tensor(result[0]).double()
            b = torch.tensor(expected[0]).double()
            off += (1 - torch.cosine_similarity(a, b)).tolist()
            maps.append(float(np.abs(result[1] - expected[1]).max()))
        row: Figures = {"precision": precision, "route": route, "cases": len(maps)}
        return row | {"one_minus_cosine": np.mean(off), "largest": max(off), "map_error": max(maps)}

    def _encoding(self, precision: str, _: Tell) -> Figures:
        """Time encoding an image like the one before, with and without its CUDA graph."""
        model = _model(self.architecture, self.device)
        image = _picture(self.side).to(self.device)
        inverter = MaskInverter(model)
        config = InversionConfig().changed(precision=precision)

        def milliseconds() -> float:
            start = time.perf_counter()
            inverter.set_image_tensor(image, config)
            _ = inverter.image_embedding  # waits for the device
            return 1000 * (time.perf_counter() - start)

        row: Figures = {"precision": precision}
        row["ms"] = np.median([milliseconds() for _ in range(REPEATS + WARMING)][WARMING:])
        if CudaGraph.suits(torch.device(self.device)):
            with GRAPHS.off():
                row["ms_without_graph"] = np.median([milliseconds() for _ in range(REPEATS)])
        return row

    def _whole(self, share: float, count: int, precision: str, _: Tell) -> Figures:
        """Time calls on an image that is new, and on the same image again."""
        row: Figures = {"masks": count, "precision": precision}
        how = (self.architecture, self.device, self.side, precision)
        if (expected := _first(*how, share) * count) > share:
            return row | {"route": f"left out, since it takes about {expected:.0f} s"}
        if "cuda" in self.device:
            torch.cuda.reset_peak_memory_stats(self.device)
        times: list[tuple[float, float]] = []
        while not times or (len(times) < REPEATS and sum(map(sum, [*times, times[-1]])) < share):
            *seconds, row["route"] = _call(*how, count)
            times.append((seconds[0], seconds[1]))
        row["ms"], row["ms_again"] = (1000 * np.median(times, axis=0)).tolist()
        if "cuda" in self.device:
            row["gib"] = torch.cuda.max_memory_allocated(self.device) / 2**30
        return row | {"calls": len(times)}

    def _without(self, share: float, extra: str, count: int, precision: str, tell: Tell) -> Figures:
        """Time the same calls without graphs, or without kernels, to see what they bring."""
        trial: Trial = EXTRAS[extra]
        with trial.off():
            return {"without": extra} | self._whole(share, count, precision, tell)

    def _large(self, share: float, name: str, precision: str, _: Tell) -> Figures:
        """Time regions of a large image, in automatic windows."""
        model = _model(name, self.device)
        regions = _ellipses(self.regions)

        def work(count: int) -> None:
            some = Regions(PLANE, regions[:count])
            label_regions(_plane(), some, WORDS, model=model, precision=precision)

        return {"model": name, "precision": precision} | self._many(work, self.regions, share)

    def _batch(self, share: float, name: str, precision: str, _: Tell) -> Figures:
        """Time a small image that is read and whose results are written, as in a batch."""
        model = _model(name, self.device)
        file = sample_folder() / "everyday-1.png"
        how: dict[str, Any] = {"image": file, "regions": file.with_name("everyday-1_regions.png")}
        how |= {"settings": RunSettings(inversion=InversionConfig().changed(precision=precision))}

        def work(count: int) -> None:
            with TemporaryDirectory() as out:
                more = {"vocabulary": Vocabulary(WORDS), "out": Path(out), **how}
                tasks = [ImageTask(name=f"{number}", **more) for number in range(count)]
                for report in RunTasks(model).all(tasks):
                    if report.problem:
                        raise InputError(report.problem)

        return {"model": name, "precision": precision} | self._many(work, self.images, share)

    def _many(self, work: Callable[[int], None], total: int, share: float) -> Figures:
        """Time as many items as a first timing says fit, and how busy the device is with them."""
        start = time.perf_counter()
        work(1)  # warms up
        few = min(FEW, total, max(1, int(0.3 * share / (time.perf_counter() - start))))
        start = time.perf_counter()
        work(few)
        first = time.perf_counter() - start
        part = 0.35 if "cuda" in self.device else 0.5
        count = min(total, max(few, int(part * share * few / first)))
        start = time.perf_counter()
        worked = time.process_time()
        work(count)
        seconds = time.perf_counter() - start
        worked = time.process_time() - worked
        row: Figures = {"items": count, "of": total, "s": seconds, "ms_each": 1e3 * seconds / count}
        if self.device == "cpu":
            row["busy_percent"] = 100 * worked / seconds / torch.get_num_threads()
        if "cuda" in self.device:  # apart, since profiling takes time itself
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
                work(count)
            kernels = []
            for e in seen.events():
                if e.device_type.name == "CUDA":
                    kernels.append(e.time_range)
            row["busy_percent"] = sum(kernel.elapsed_us() for kernel in kernels) / 1e4 / seconds
        return row


def _call(name: str, device: str, side: int, precision: str, count: int) -> Any:
    """Return the seconds of a call, those of the masks again, and the route."""
    model = _model(name, device)
    config = InversionConfig().changed(precision=precision)
    image = _picture(side).to(device)
    masks = _boxes(count, side)
    inverter = MaskInverter(model)
    start = time.perf_counter()
    inverter.set_image_tensor(image, config)
    route = inverter.invert(masks, config).route
    done = time.perf_counter()
    inverter.invert(masks, config)
    return done - start, time.perf_counter() - done, route


@cache
def _first(name: str, device: str, side: int, precision: str, share: float) -> float:
    """Return the seconds that a mask takes in a second call, or in a slow first one on a CPU."""
    seconds = float(sum(_call(name, device, side, precision, 1)[:2]))
    # A GPU may have compiled kernels in its first call.
    if device == "cpu" and seconds > share / FEW:
        return seconds
    return float(sum(_call(name, device, side, precision, 5)[:2]) / 5)


@cache
def _model(name: str, device: str) -> Backbone:
    if name == DEMO:
        return load_model(DEMO, device=device)
    torch.manual_seed(0)
    clip = open_clip.create_model(name, pretrained=None).eval().requires_grad_(False)
    return wrap_open_clip(clip.to(device))


@cache
def _plane() -> NDArray[np.uint8]:
    scene = Image.fromarray(load_scene("from-above").image).resize((1024, 768))
    return np.tile(np.asarray(scene), (4, 4, 1))


def _picture(side: int) -> torch.Tensor:
    return torch.from_numpy(_plane()[:side, :side].transpose(2, 0, 1)[None] / 64 - 2).float()


def _boxes(count: int, side: int) -> NDArray[np.bool_]:
    rng = np.random.default_rng(0)
    places = np.arange(side)
    low = rng.integers(0, side - side // 11, (2, count, 1))
    high = low + rng.integers(side // 28, side // 2, (2, count, 1))
    rows, columns = (places >= low) & (places < high)
    return np.asarray(rows[:, :, None] & columns[:, None])


def _ellipses(count: int) -> list[Region]:
    """Return ellipses of 16 to 80 px, from the top: the first of them lie as dense as all."""
    rng = np.random.default_rng(0)
    low = rng.integers(0, [side - 80 for side in PLANE], (count, 2))
    boxes = np.hstack([low, low + rng.integers(16, 80, (count, 2))])
    ellipses = []
    for number, (y0, x0, y1, x1) in enumerate(sorted(boxes.tolist())):
        y, x = (np.linspace(-1, 1, size + 2)[1:-1] for size in (y1 - y0, x1 - x0))
        ellipses.append(Region(number + 1, (y0, x0, y1, x1), y[:, None] ** 2 + x**2 < 1))
    return ellipses


def _cases(folder: Path) -> Iterator[tuple[Any, torch.Tensor, Any, InversionConfig, Any]]:
    """Yield what the published code gives, or else what the CPU gives with the bundled model."""
    files = sorted(folder.glob("*.npz"))
    for file in files:
        z = np.load(file)
        embed, *shape, quick = map(int, z["config"])
        clip = CLIP(embed, dict(zip(SHAPE, shape, strict=True)), TEXT, quick_gelu=bool(quick))
        weights = {}
        for k in z.files:
            if k.startswith("visual."):
                weights[k[7:]] = torch.tensor(z[k])
        clip.eval().visual.load_state_dict(weights)
        steps, rate, alpha, decay, layer = map(float, z["hyper"])
        config = InversionConfig(steps=int(steps), learning_rate=rate, alpha=alpha).changed(
            weight_decay=decay, layers=int(-layer), keep_last_step_heatmaps=True
        )
        expected = z["localized_embeddings"], z["last_step_maps"]
        yield clip, torch.tensor(z["image"]), z["masks"].astype(bool), config, expected
    if not files:
        clip = load_model(DEMO, device="cpu").clip
        case = (_picture(128), _boxes(9, 128))
        config = InversionConfig(keep_last_step_heatmaps=True)
        yield clip, *case, config, _inverted(clip, *case, config)


def _inverted(clip: Any, image: torch.Tensor, masks: Any, config: InversionConfig) -> Any:
    inverter = MaskInverter(wrap_open_clip(clip))
    inverter.set_image_tensor(image, config)
    result = inverter.invert(masks, config)
    return result.raw_embeddings, result.last_step_heatmaps
