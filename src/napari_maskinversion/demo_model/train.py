"""Training of the demo model; `napari-maskinversion rebuild-demo` drives it.

Runs on a CPU or a GPU; scenes are rendered where the model is. The schedule follows the share of
the time budget that is used, so a slower machine takes fewer steps. On a CPU the budget is
processor time per thread: neither pauses nor other programs use it up. Everything random comes from
the seed and the step's number. Started again with the same folder, training resumes; SIGTERM ends
it with a checkpoint. A warm start takes an earlier model with the same names. Kept are averages of
the weights over the last steps: the latest in the folder itself, the best of all measurements in
`BEST` and, at the end, in the folder too.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from ..base.atomic_files import replacing
from ..base.record_store import RecordStore
from .domains import VARIED, Views
from .losses import bounded, coverage, descent_loss, name_loss
from .maps import encode
from .model import (
    WEIGHTS_FILE,
    build_model,
    load_model_file,
    normalise,
    save_model,
    with_norm,
)
from .probe import measure, measure_real
from .recipe import LARGE, SMALL, Recipe
from .scenes import SceneBatch, compose, generator
from .sprites import DRAWN_IN, STYLES, UNSEEN_STYLE
from .texts import phrase_table, train_text
from .vocabulary import Name

BEST: Final = "best"  # folder, in the output folder, of the best weights so far
SCORES: Final = "scores.json"  # beside the best weights


class Trainer:
    """A model, its optimiser and its progress.

    Parameters
    ----------
    recipe : Recipe
    sprites : list of Tensor
        Levels from `pyramid`, styles as in `DRAWN_IN`; all but `UNSEEN_STYLE` are drawn from.
        Drawings after the recipe's `objects` have no name.
    names : sequence of Name
        What the model learns: the names of the sprites, then those of the real views.
    real : Views, optional
        Real pictures; without them only drawings are shown.
    device : str
    validation : Views, optional
        Real pictures to measure on during training.
    """

    def __init__(
        self,
        recipe: Recipe,
        sprites: Sequence[Tensor],
        names: Sequence[Name],
        real: Views | None = None,
        device: str = "cpu",
        validation: Views | None = None,
    ) -> None:
        self.validation = validation
        self.recipe = recipe
        self.names = tuple(names)
        self.device = torch.device(device)
        self.sprites = [level.to(self.device) for level in sprites]
        drawn = DRAWN_IN[: sprites[0].shape[0]]
        shown = [i for i, s in enumerate(drawn) if s != UNSEEN_STYLE]
        self.emoji = [i for i in shown if drawn[i] in STYLES]
        self.styles = shown + self.emoji  # pictograms half as often
        self.real = real
        self.model: Any = build_model(recipe.seed).to(self.device)
        visual = list(self.model.visual.parameters())
        groups = [
            {"params": [p for p in visual if p.ndim >= 2], "weight_decay": recipe.weight_decay},
            {"params": [p for p in visual if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.98))
        self.averaged: Any = copy.deepcopy(self.model.visual).requires_grad_(False)
        self.step = 0
        self.seconds = 0.0
        self.table = torch.zeros(0)

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

    def scenes(self, rng: torch.Generator, *, large: bool) -> SceneBatch:
        """Draw the scenes of the present step."""
        r, share = self.recipe, self.share
        sizes = LARGE if large else SMALL
        size = sizes[int(torch.randint(len(sizes), (1,), generator=rng, device=rng.device))]
        count = r.large if large else round(r.small * math.prod(SMALL[0]) / math.prod(size))
        real = round(count * r.real) if self.real is not None else 0
        early = share < r.singles_until
        single, most = (0.9, 2) if early else (0.2, 5) if large else (0.6, 3)
        counts = torch.randint(2, most + 1, (count - real,), generator=rng, device=rng.device)
        alone = torch.rand(count - real, generator=rng, device=rng.device) < single
        counts[alone] = 1
        look = r.look(share, large=large)
        drawn = compose(
            self.sprites, rng, counts, size, styles=self.styles, look=look, named=r.objects
        )
        if self.real is None or not real:
            return drawn
        return joined([drawn, self.real.draw(rng, real, size, VARIED)])

    def advance(self) -> dict[str, float]:
        """Take one step and return its losses."""
        began = self._own_time()
        r = self.recipe
        rng = generator("train", r.seed * 10_000_000 + self.step, self.device)
        ways, count = self.table.shape[:2]
        pick = torch.randint(ways, (count,), generator=rng, device=self.device)
        names = self.table[pick, torch.arange(count, device=self.device)]
        scale = self.model.logit_scale.exp().detach()
        self.optimiser.zero_grad(set_to_none=True)
        scene = self.scenes(rng, large=False)
        image = encode(self.model.visual, normalise(scene.images))
        loss = name_loss(image.embedding, names, scene.labels, scale)
        loss.backward()  # type: ignore[no-untyped-call]
        losses = {"small": loss.item()}
        if self.share >= r.singles_until:
            losses |= self._advance_maps(rng, names, scale)
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate()
        norm = torch.nn.utils.clip_grad_norm_(self.model.visual.parameters(), 1.0)
        self.optimiser.step()
        self._average()
        self.step += 1
        self.seconds += self._own_time() - began
        return losses | {"gradient": norm.item()}

    def _advance_maps(self, rng: torch.Generator, names: Tensor, scale: Tensor) -> dict[str, float]:
        """Add the gradients of images at the working resolution, and of inversions on them."""
        r = self.recipe
        scene = self.scenes(rng, large=True)
        image = encode(self.model.visual, normalise(scene.images))
        naming = name_loss(image.embedding, names, scene.labels, scale)
        cover = coverage(scene.visible, image.grid)
        tokens = image.tokens.shape[1]
        order = torch.randperm(tokens, generator=rng, device=self.device)
        surrogate, value = bounded(
            lambda leaf: descent_loss(
                self.model.visual, leaf, names, scene.labels, cover, order[: r.queries], scale
            ),
            image,
        )
        grow = min(1.0, 0.2 + (self.share - r.singles_until) / 0.1)
        loss = 0.5 * naming + grow * r.descent * surrogate
        loss.backward()  # type: ignore[no-untyped-call]
        return {"large": naming.item(), "descent": value}

    def _own_time(self) -> float:
        """Return seconds of work; on a CPU, what other programs take and pauses do not count."""
        if self.device.type == "cpu":
            return time.process_time() / torch.get_num_threads()
        return time.perf_counter()

    def _average(self) -> None:
        """Move the averaged weights towards the present ones, fast at first."""
        decay = min(self.recipe.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for kept, now in zip(
                self.averaged.parameters(), self.model.visual.parameters(), strict=True
            ):
                kept.lerp_(now, 1 - decay)

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
        rng = generator("validation", 0)
        counts = torch.tensor([1, 3] * 32)
        sprites = [level[:, : self.recipe.objects].cpu() for level in self.sprites]
        scene = compose(sprites, rng, counts, (128, 128), styles=self.emoji)
        model = copy.deepcopy(self.model).cpu()
        model.visual.load_state_dict(self.averaged.state_dict())
        return with_norm(model, normalise(scene.images))

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
        self.step, self.seconds = state["step"], state["seconds"]
        self.read_names()


def joined(batches: Iterable[SceneBatch]) -> SceneBatch:
    """Concatenate scenes of one size; missing slots stay unused."""
    batches = list(batches)
    most = max(b.labels.shape[1] for b in batches)
    visible = [F.pad(b.visible, (0, 0, 0, 0, 0, most - b.visible.shape[1])) for b in batches]
    labels = [F.pad(b.labels, (0, most - b.labels.shape[1]), value=-1) for b in batches]
    return SceneBatch(torch.cat([b.images for b in batches]), torch.cat(visible), torch.cat(labels))


def worth(scores: Mapping[str, float]) -> float:
    """Return one figure to choose weights by: the mean over drawings, maps and the real domains.

    The unseen style has no say, so that it stays unseen.
    """
    real = [scores[kind] for kind in ("aerial", "blood", "nuclei") if kind in scores]
    parts = [scores["seen"], scores["maskinversion"], scores["iou"]]
    if real:
        parts.append(sum(real) / len(real))
    return sum(parts) / len(parts)


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
    every: float = 300.0,
    report: bool = True,
) -> None:
    """Train to the end of the budget; save and measure regularly."""
    out.mkdir(parents=True, exist_ok=True)
    recipe, names = trainer.recipe, [n.name for n in trainer.names]
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

    def keep(*, measuring: bool) -> None:
        nonlocal best
        trainer.save(checkpoint)
        model = trainer.published()
        save_model(model, out, names)
        (out / "recipe.json").write_text(json.dumps(noted, indent=1) + "\n")
        if not measuring:
            return
        scores = _measured(trainer, model)
        row = {"step": trainer.step, "minutes": trainer.seconds / 60} | scores
        rounded = {k: round(v, 4) for k, v in (row | {"worth": worth(scores)}).items()}
        print("measured " + json.dumps(rounded), flush=True)
        history.add((trainer.step,), {k: v for k, v in rounded.items() if k != "step"})
        if rounded["worth"] > best:
            best = rounded["worth"]
            save_model(model, out / BEST, names)
            (out / BEST / SCORES).write_text(json.dumps(rounded) + "\n")
            (out / BEST / "recipe.json").write_text(json.dumps(noted, indent=1) + "\n")

    saved = measured = time.monotonic()
    own = trainer.seconds
    with _asked_to_stop() as asked:
        while not trainer.finished and not asked.is_set():
            losses = trainer.advance()
            if trainer.step % 50 == 0:
                progress = " ".join(f"{k} {v:.3f}" for k, v in losses.items())
                print(
                    f"step {trainer.step} {trainer.seconds / 60:.1f} min lr {trainer.rate():.5f} "
                    + progress,
                    flush=True,
                )
            now = time.monotonic()
            if now - saved >= every or trainer.finished:
                # often enough even where other work leaves little of the processor
                due = trainer.finished or trainer.seconds - own >= every
                due |= now - measured >= 6 * every
                keep(measuring=report and due)
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
    return float(json.loads(noted.read_text("utf-8"))["worth"]) if noted.is_file() else -math.inf


def _measured(trainer: Trainer, model: Any) -> dict[str, float]:
    names = [n.name for n in trainer.names]
    emoji = slice(len(STYLES))
    sprites = [level[emoji, : trainer.recipe.objects].cpu() for level in trainer.sprites]
    unseen = STYLES.index(UNSEEN_STYLE)
    scores = measure(model, sprites, names, unseen=unseen, count=48, size=128)
    if trainer.validation is not None:
        scores |= measure_real(model, trainer.validation, names, count=160, size=128)
    return scores
