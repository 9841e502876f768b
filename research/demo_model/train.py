"""Training of the demo model; `napari-maskinversion rebuild-demo` drives it.

Runs on a CPU or a GPU; scenes are rendered where the model is. On a GPU every part of a step is a
CUDA graph, and scenes are rendered beside it. The schedule follows the share of the time budget
that is used, so a slower machine takes fewer steps. On a CPU the budget is processor time per
thread: neither pauses nor other programs use it up. Everything random comes from the seed and the
step's number. Started again with the same folder, training resumes; SIGTERM ends it with a
checkpoint. A warm start takes an earlier model with the same names. Kept are averages of the
weights over the last steps: the latest in the folder itself, the best of all measurements in `BEST`
and, at the end, in the folder too.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.drawn.sprites import STYLES, UNSEEN_STYLE
from napari_maskinversion.base.atomic_files import replacing
from napari_maskinversion.bench.measures.figures_file import RecordStore
from napari_maskinversion.demo_model.scene_words import Name
from napari_maskinversion.demo_model.scenes import NOTHING, compose, generator

from .losses import bounded, coverage, descent_loss, name_loss
from .maps import encode
from .model import (
    MODEL_CONFIG,
    WEIGHTS_FILE,
    build_model,
    load_model_file,
    normalise,
    save_model,
    with_norm,
)
from .pictograms import DRAWN_IN
from .probe import Judge, worth, worth14
from .recipe import LARGE, SMALL, Recipe
from .texts import phrase_table, train_text
from .views import ViewPool, Views

BEST: Final = "best"  # folder, in the output folder, of the best weights so far
SCORES: Final = "scores.json"  # beside the best weights
WORTH: Final = "worth14"  # in it: the figure that decides
SLOTS: Final = 6  # of a scene: five objects, and a piece of background
PATCH: Final[int] = MODEL_CONFIG["vision_cfg"]["patch_size"]


@dataclass(frozen=True, slots=True)
class Shown:
    """What the next steps show; every tensor's first axis is the step."""

    small: tuple[int, int]
    large: tuple[int, int]
    to_name: tuple[Tensor, ...]  # images, labels, names
    to_invert: tuple[Tensor, ...]  # the same, covers, query tokens, weight; empty: no inversions


class Parts:
    """Runs the parts of a step: on a CPU as they are, on a GPU as graphs of their first run."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = parameters
        self._graphs: dict[object, tuple[Any, tuple[Tensor, ...], Tensor]] = {}

    def run(
        self, key: object, part: Callable[..., Tensor], *inputs: Tensor, rehearse: bool = True
    ) -> Tensor:
        """Run a part, which adds to the parameters' gradients; `key` tells its shapes."""
        if self._parameters[0].device.type != "cuda":
            return part(*inputs)
        if key not in self._graphs:
            self._graphs[key] = self._captured(part, inputs, rehearse)
        graph, own, out = self._graphs[key]
        for into, value in zip(own, inputs, strict=True):
            into.copy_(value)
        graph.replay()
        return out

    def _captured(
        self, part: Callable[..., Tensor], inputs: tuple[Tensor, ...], rehearse: bool
    ) -> tuple[Any, tuple[Tensor, ...], Tensor]:
        own = tuple(t.clone() for t in inputs)
        slopes = [p.grad.clone() for p in self._parameters if p.grad is not None]
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries choose and allocate before the capture
            for _ in range(2 * rehearse):
                part(*own)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            out = part(*own)
        torch.cuda.synchronize()
        for parameter, slope in zip(self._parameters, slopes, strict=True):
            assert parameter.grad is not None
            parameter.grad.copy_(slope)
        return graph, own, out


class Trainer:
    """A model, its optimiser and its progress.

    Of the `sprites`, levels of all `DRAWN_IN`, `UNSEEN_STYLE` is never shown; drawings after the
    recipe's `objects` have no name. `names` are those of the sprites, then those of `real` views.
    """

    def __init__(
        self,
        recipe: Recipe,
        sprites: Sequence[Tensor],
        names: Sequence[Name],
        real: Views | None = None,
        device: str = "cpu",
        validation: Views | None = None,
        workers: int = 0,
    ) -> None:
        self.recipe, self.names, self.validation = recipe, tuple(names), validation
        self.device = torch.device(device)
        self.cuda = self.device.type == "cuda"
        drawn = DRAWN_IN[: sprites[0].shape[0]]
        shown = [i for i, s in enumerate(drawn) if s != UNSEEN_STYLE]
        self.emoji = [i for i in shown if drawn[i] in STYLES]
        self.styles = shown + (recipe.emoji - 1) * self.emoji
        self.sprites = [level.to(self.device) for level in sprites]
        self.pool: ViewPool | None = None
        if real is not None:
            self.pool = ViewPool(
                real, rows=recipe.rows, fresh=recipe.fresh, workers=workers, seed=recipe.seed
            )
        self.model: Any = build_model(recipe.seed).to(self.device)
        self.parameters = list(self.model.visual.parameters())
        for parameter in self.parameters:
            parameter.grad = torch.zeros_like(parameter)
        vectors = [p for p in self.parameters if p.ndim < 2]
        others = [p for p in self.parameters if p.ndim >= 2]
        groups = [
            {"params": others, "weight_decay": recipe.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        # Graphs read the rate where it was when they were captured.
        self._rate = torch.zeros((), device=self.device)
        self.optimiser = torch.optim.AdamW(
            groups, lr=self._rate, betas=(0.9, 0.98), fused=True, capturable=self.cuda
        )
        self.averaged: Any = copy.deepcopy(self.model.visual).requires_grad_(False)
        self._blend = torch.zeros((), device=self.device)
        self._parts = Parts(self.parameters)
        self._beside = torch.cuda.Stream() if self.cuda else None  # type: ignore[no-untyped-call]
        self._ahead: Shown | None = None
        self._ended: Any = None
        self.step = 0
        self.seconds = 0.0
        self.table = self.scale = torch.zeros(0)

    @property
    def share(self) -> float:
        """Place in the schedule, 0..1."""
        return self.recipe.share(self.seconds)

    @property
    def finished(self) -> bool:
        """Whether the budget is used up."""
        return self.seconds >= 60 * self.recipe.minutes

    def read_names(self) -> None:
        """Embed phrases of every name, (phrases, names, e), unit norm."""
        self.table = phrase_table(self.model, self.names)
        self.scale = self.model.logit_scale.exp().detach()

    def look_at_views(self) -> None:
        """Cut the real views of the present step."""
        if self.pool is not None:
            self.pool.turn_to(self.step // self.recipe.together, self.device)

    def render(self) -> Shown:
        """Draw what the next steps show."""
        r, share = self.recipe, self.share
        number = r.seed * 10_000_000 + self.step
        rng = generator("train", number, self.device)
        dice = generator("train", number + 5_000_000)  # without asking the device
        self.look_at_views()
        ways, count = self.table.shape[:2]
        pick = torch.randint(ways, (r.together, count), generator=rng, device=self.device)
        names = self.table[pick, torch.arange(count, device=self.device)]
        small, images, labels, _ = self.scenes(rng, dice, large=False)
        to_name = images, labels, names
        if share < r.singles_until:
            return Shown(small, small, to_name, ())
        large, images, labels, cover = self.scenes(rng, dice, large=True)
        tokens = cover.shape[3] * cover.shape[4] + 1
        order = torch.rand(r.together, tokens, generator=rng, device=self.device).argsort(1)
        weight = torch.full((r.together,), r.weight(share), device=self.device)
        queries = order[:, : r.queries]
        return Shown(small, large, to_name, (images, labels, names, cover, queries, weight))

    def scenes(
        self, rng: torch.Generator, dice: torch.Generator, *, large: bool
    ) -> tuple[tuple[int, int], Tensor, Tensor, Tensor]:
        """Return a size, images (G, B, 3, H, W), labels (G, B, M) and covers (G, B, M, h, w)."""
        r, share, sizes = self.recipe, self.share, LARGE if large else SMALL
        size = sizes[int(torch.randint(len(sizes), (1,), generator=dice))]
        factor = 1.5 if float(torch.rand(1, generator=dice)) < r.finer else 1.0
        count = r.images(size, large=large)
        real = round(count * r.real) if self.pool is not None else 0
        single, most = r.mixture(share, large=large)
        drawn = (r.together * (count - real),)
        counts = torch.randint(2, most + 1, drawn, generator=rng, device=self.device)
        counts[torch.rand(drawn, generator=rng, device=self.device) < single] = 1
        batch = compose(
            self.sprites,
            rng,
            counts,
            (round(factor * size[0]), round(factor * size[1])),
            styles=self.styles,
            look=r.look(share, large=large),
            named=r.objects,
        )
        images = batch.images
        if factor != 1:
            images = F.interpolate(images, size, mode="bicubic", antialias=True).clamp(0, 1)
        parts = [(images, batch)]
        if self.pool is not None and real:
            views = self.pool.draw(rng, r.together * real, size)
            parts.append((views.images, views))
        grid = size[0] // PATCH, size[1] // PATCH
        return (
            size,
            self._by_step([images for images, _ in parts]),
            self._by_step([in_slots(b.labels, NOTHING) for _, b in parts]),
            self._by_step([in_slots(coverage(b.visible, grid), 0) for _, b in parts]),
        )

    def _by_step(self, parts: Sequence[Tensor]) -> Tensor:
        """Join kinds of scenes, each (G * B, ...), to (G, B in all, ...)."""
        return torch.cat([p.reshape(self.recipe.together, -1, *p.shape[1:]) for p in parts], 1)

    def advance(self) -> dict[str, Tensor]:
        """Take the steps that are rendered together; return the losses of the last one."""
        began = self._own_time()
        shown = self._ahead or self._rendered()
        if self._beside is not None:
            torch.cuda.current_stream().wait_stream(self._beside)
            for tensor in (*shown.to_name, *shown.to_invert):
                tensor.record_stream(torch.cuda.current_stream())
        losses: dict[str, Tensor] = {}
        for place in range(self.recipe.together):
            losses = self._take_step(shown, place)
            self.step += 1
        if self._beside is not None:
            ended, self._ended = self._ended, torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._ended.record()
            self._ahead = self._rendered()
            if ended is not None:
                ended.synchronize()
        self.seconds += self._own_time() - began
        return losses

    def _rendered(self) -> Shown:
        """Draw what the next steps show, on a GPU beside the work there."""
        if self._beside is None:
            return self.render()
        if self._ahead is None:
            torch.cuda.synchronize()  # drawings and names were written on another stream
        with torch.cuda.stream(self._beside):
            return self.render()

    def _take_step(self, shown: Shown, place: int) -> dict[str, Tensor]:
        self._rate.fill_(self.rate())
        self._blend.fill_(1 - min(self.recipe.average, (1 + self.step) / (10 + self.step)))
        if self.cuda and not self.optimiser.state:
            self._begin_state()
        to_name = (part[place] for part in shown.to_name)
        losses = {"small": self._parts.run(("small", shown.small), self._name, *to_name)}
        if shown.to_invert:
            to_invert = (part[place] for part in shown.to_invert)
            two = self._parts.run(("large", shown.large), self._invert, *to_invert)
            losses |= {"large": two[0], "descent": two[1]}
        losses["gradient"] = self._parts.run("update", self._update, rehearse=False)
        return losses

    def _begin_state(self) -> None:
        """Make the optimiser's state before it is captured."""
        self._rate.zero_()
        self.optimiser.step()
        for state in self.optimiser.state.values():
            state["step"].zero_()
        self._rate.fill_(self.rate())

    def _name(self, images: Tensor, labels: Tensor, names: Tensor) -> Tensor:
        """Add the gradients of naming small images."""
        image = encode(self.model.visual, normalise(images))
        loss = name_loss(image.embedding, names, labels, self.scale)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _invert(
        self,
        images: Tensor,
        labels: Tensor,
        names: Tensor,
        cover: Tensor,
        queries: Tensor,
        weight: Tensor,
    ) -> Tensor:
        """Add the gradients of images at the working resolution, and of inversions on them."""
        visual, inversion = self.model.visual, self.recipe.inversion
        image = encode(visual, normalise(images))
        naming = name_loss(image.embedding, names, labels, self.scale)

        def ask(leaf: Any) -> Tensor:
            return descent_loss(visual, leaf, names, labels, cover, queries, self.scale, inversion)

        surrogate, value = bounded(ask, image)
        loss = 0.5 * naming + weight * surrogate
        loss.backward()  # type: ignore[no-untyped-call]
        return torch.stack([naming.detach(), value])

    def _update(self) -> Tensor:
        """Step by the gradients, move the averaged weights, forget the gradients."""
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimiser.step()
        with torch.no_grad():
            for kept, now in zip(self.averaged.parameters(), self.parameters, strict=True):
                kept.lerp_(now, self._blend)
        self.optimiser.zero_grad(set_to_none=False)
        return norm

    def _own_time(self) -> float:
        """Return seconds of work; on a CPU, what other programs take and pauses do not count."""
        if self.device.type == "cpu":
            return time.process_time() / torch.get_num_threads()
        return time.perf_counter()

    def rate(self) -> float:
        """Learning rate of the present step."""
        return self.recipe.rate(self.seconds / (60 * self.recipe.minutes), self.step)

    def continue_from(self, folder: Path) -> None:
        """Copy both towers of an earlier model with the same names, in the same order."""
        self.model.load_state_dict(load_model_file(folder).state_dict())
        self.averaged.load_state_dict(self.model.visual.state_dict())
        self.read_names()

    def published(self) -> Any:
        """Return a copy with the averaged weights and image embeddings of the published norm."""
        model = copy.deepcopy(self.model)
        model.visual.load_state_dict(self.averaged.state_dict())
        return with_norm(model, self._usual_images)

    @cached_property
    def _usual_images(self) -> Tensor:
        """Images whose embeddings have the published norm on average."""
        named = [level[:, : self.recipe.objects].cpu() for level in self.sprites]
        rng, counts = generator("validation", 0), torch.tensor([1, 3] * 32)
        scene = compose(named, rng, counts, (128, 128), styles=self.emoji)
        return normalise(scene.images).to(self.device)

    def judge(self) -> Judge:
        """Draw the validation scenes."""
        named = [level[:, : self.recipe.objects] for level in self.sprites]
        return Judge(named, self.validation, count=self.recipe.judged, device=self.device)

    def save(self, path: Path) -> None:
        """Write a checkpoint whole or not at all."""
        state = {
            "model": self.model.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
        }
        with replacing(path) as part:
            torch.save(state, part)

    def restore(self, path: Path) -> None:
        """Continue where a checkpoint stopped."""
        state = torch.load(path, weights_only=True, map_location=self.device)
        self.model.load_state_dict(state["model"])
        self.averaged.load_state_dict(state["averaged"])
        self.optimiser.load_state_dict(state["optimiser"])
        for group in self.optimiser.param_groups:
            group["lr"] = self._rate
        self.step, self.seconds = state["step"], state["seconds"]
        self.read_names()


def in_slots(values: Tensor, unused: float) -> Tensor:
    """Fill up values by object (B, M, ...) to `SLOTS` objects."""
    return F.pad(values, [0, 0] * (values.ndim - 2) + [0, SLOTS - values.shape[1]], value=unused)


@contextmanager
def _asked_to_stop() -> Iterator[threading.Event]:
    """Turn SIGTERM into an event, where signals may be handled."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set())
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)


def train(
    trainer: Trainer,
    out: Path,
    *,
    warm: Path | None = None,
    every: float | None = None,
    report: bool = True,
) -> None:
    """Train to the end of the budget; save and measure regularly."""
    out.mkdir(parents=True, exist_ok=True)
    recipe, names = trainer.recipe, [n.name for n in trainer.names]
    every = min(300.0, 6 * recipe.minutes) if every is None else every
    if trainer.cuda:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    checkpoint = out / "checkpoint.pt"
    resumed = checkpoint.is_file()
    # When a training resumes, its photographs may lie elsewhere, and its budget may be raised.
    noted = asdict(recipe) | {"photographs": [Path(file).name for file in recipe.photographs]}
    settings = {name: value for name, value in noted.items() if name != "minutes"}
    kept = out / "history.jsonl" if report else None
    history = RecordStore(kept, "demo training", ("step",), settings, overwrite=not resumed)
    if resumed:
        trainer.restore(checkpoint)
        print(f"resumed at step {trainer.step}, {trainer.seconds / 60:.1f} min", flush=True)
    else:
        begin(trainer, warm, report=report)
        save_model(trainer.published(), out, names)
    best = max(_noted_worth(folder) for folder in (out / BEST, warm) if folder is not None)
    judge = trainer.judge() if report and not trainer.finished else None

    def keep(*, measuring: bool) -> None:
        nonlocal best
        trainer.save(checkpoint)
        model = trainer.published()
        save_model(model, out, names)
        (out / "recipe.json").write_text(json.dumps(noted, indent=1) + "\n")
        if judge is None or not measuring:
            return
        scores = judge.measure(model, names)
        scores |= {"worth": worth(scores), WORTH: worth14(scores)}
        row = {"step": trainer.step, "minutes": trainer.seconds / 60} | scores
        rounded = {k: round(v, 4) for k, v in row.items()}
        print("measured " + json.dumps(rounded), flush=True)
        history.add((trainer.step,), {k: v for k, v in rounded.items() if k != "step"})
        if rounded[WORTH] > best:
            best = rounded[WORTH]
            save_model(model, out / BEST, names)
            (out / BEST / SCORES).write_text(json.dumps(rounded) + "\n")
            (out / BEST / "recipe.json").write_text(json.dumps(noted, indent=1) + "\n")

    trainer.look_at_views()  # before the clock starts
    saved = measured = time.monotonic()
    own = trainer.seconds
    with _asked_to_stop() as asked:
        while not trainer.finished and not asked.is_set():
            before, losses = trainer.step, trainer.advance()
            if trainer.step // 50 > before // 50:
                progress = " ".join(f"{k} {v.item():.3f}" for k, v in losses.items())
                place = f"step {trainer.step} {trainer.seconds / 60:.1f} min"
                print(f"{place} lr {trainer.rate():.5f} {progress}", flush=True)
            now = time.monotonic()
            if now - saved >= every or trainer.finished:
                # often enough even where other work leaves little of the processor
                due = trainer.finished or trainer.seconds - own >= every
                due |= now - measured >= 6 * every
                keep(measuring=due)
                saved = time.monotonic()
                if due:
                    measured, own = saved, trainer.seconds
        if asked.is_set():
            keep(measuring=False)
            raise SystemExit(128 + signal.SIGTERM)
    if (out / BEST / WEIGHTS_FILE).is_file():
        shutil.copyfile(out / BEST / WEIGHTS_FILE, out / WEIGHTS_FILE)


def begin(trainer: Trainer, warm: Path | None, *, report: bool = True) -> None:
    """Take both towers of an earlier model, or train the text tower; read the names."""
    recipe = trainer.recipe
    if warm is None:
        train_text(trainer.model, trainer.names, recipe.text_steps, seed=recipe.seed, report=report)
        trainer.read_names()
    else:
        trainer.continue_from(warm)


def _noted_worth(folder: Path) -> float:
    """Return the worth of the weights in a folder; minus infinity where none is noted."""
    noted = folder / SCORES
    if not noted.is_file():
        return -math.inf
    scores: Mapping[str, float] = json.loads(noted.read_text("utf-8"))
    return scores.get(WORTH, -math.inf)  # earlier stages were judged by another figure
