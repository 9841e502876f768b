"""Training of the demo model; `napari-maskinversion rebuild-demo` drives it.

Runs on a CPU or a GPU; scenes are rendered where the model is. The schedule follows the share of
the time budget that is used, so a slower machine takes fewer steps; everything random comes from
the seed and the step's number. Started again with the same folder, it resumes. A warm start takes
the image tower of an earlier model, which may have other names.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from ..base.atomic_files import replacing
from ..base.record_store import RecordStore
from .domains import Views
from .losses import bounded, coverage, descent_loss, name_loss
from .maps import encode
from .model import build_model, load_model_file, normalise, save_model, with_norm
from .probe import measure, measure_real
from .recipe import LARGE, SMALL, Recipe
from .scenes import SceneBatch, compose, generator
from .sprites import STYLES, UNSEEN_STYLE
from .texts import phrase_table, train_text
from .vocabulary import Name

SLEPT: Final = 10.0  # a step this many times longer than usual: the machine was asleep


class Trainer:
    """A model, its optimiser and its progress.

    Parameters
    ----------
    recipe : Recipe
    sprites : list of Tensor
        Levels from `pyramid`; every style but `UNSEEN_STYLE` is drawn from.
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
        drawn = STYLES[: sprites[0].shape[0]]
        self.styles = [i for i, s in enumerate(drawn) if s != UNSEEN_STYLE]
        self.real = real
        self.model: Any = build_model(recipe.seed).to(self.device)
        visual = list(self.model.visual.parameters())
        groups = [
            {"params": [p for p in visual if p.ndim >= 2], "weight_decay": recipe.weight_decay},
            {"params": [p for p in visual if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.98))
        self.step = 0
        self.seconds = 0.0
        self.usual = math.inf
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
        size = SMALL
        if large:
            size = LARGE[int(torch.randint(len(LARGE), (1,), generator=rng, device=rng.device))]
        count = r.large if large else r.small
        real = round(count * r.real) if self.real is not None else 0
        early = share < r.singles_until
        single, most = (0.9, 2) if early else (0.2, 5) if large else (0.6, 3)
        counts = torch.randint(2, most + 1, (count - real,), generator=rng, device=rng.device)
        alone = torch.rand(count - real, generator=rng, device=rng.device) < single
        counts[alone] = 1
        look = r.look(share, large=large)
        drawn = compose(self.sprites, rng, counts, size, styles=self.styles, look=look)
        if self.real is None or not real:
            return drawn
        return joined([drawn, self.real.draw(rng, real, size)])

    def advance(self) -> dict[str, float]:
        """Take one step and return its losses."""
        began = time.perf_counter()
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
        self.step += 1
        took = time.perf_counter() - began
        self.seconds += took if took < SLEPT * self.usual else self.usual
        self.usual = took if math.isinf(self.usual) else 0.9 * self.usual + 0.1 * took
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

    def rate(self) -> float:
        """Learning rate of the present step: warm-up, then cosine over the budget."""
        used = min(1.0, self.seconds / (60 * self.recipe.minutes))
        return (
            self.recipe.learning_rate
            * min(1.0, (self.step + 1) / self.recipe.warmup)
            * max(0.5 * (1 + math.cos(math.pi * used)), 0.01)
        )

    def start_from(self, folder: Path) -> None:
        """Copy an earlier model's image tower and fit its projection to the present names."""
        from ..engine.encode.image_encoding import resample_positions

        visual, earlier = self.model.visual, load_model_file(folder).visual
        state = earlier.state_dict()
        state["positional_embedding"] = resample_positions(
            earlier.positional_embedding.detach(), earlier.grid_size, visual.grid_size
        )
        visual.load_state_dict(state)
        features, targets = [], []
        with torch.no_grad():
            for i in range(30):
                rng = generator("train", self.recipe.seed * 10_000_000 + 9_500_000 + i, self.device)
                scene = self.scenes(rng, large=False)
                label = scene.labels[:, 0]
                tokens = encode(visual, normalise(scene.images)).tokens[:, 0]
                features.append(visual.ln_post(tokens)[label >= 0])
                targets.append(self.table.mean(0)[label[label >= 0]])
            x, y = torch.cat(features), torch.cat(targets)
            ridge = 1e-2 * len(x) * torch.eye(x.shape[1], device=x.device)
            visual.proj.copy_(torch.linalg.solve(x.T @ x + ridge, x.T @ y))

    def published(self) -> Any:
        """Return a copy of the model with image embeddings of the published norm."""
        rng = generator("validation", 0)
        counts = torch.tensor([1, 3] * 32)
        sprites = [level.cpu() for level in self.sprites]
        scene = compose(sprites, rng, counts, (128, 128), styles=self.styles)
        return with_norm(self.model, normalise(scene.images))

    def save(self, path: Path) -> None:
        """Write a checkpoint whole or not at all."""
        state = {
            "model": self.model.state_dict(),
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
    # The budget may be raised when a training resumes.
    settings = {name: value for name, value in asdict(recipe).items() if name != "minutes"}
    kept = out / "history.jsonl" if report else None
    history = RecordStore(kept, "demo training", ("step",), settings, overwrite=not resumed)
    if resumed:
        trainer.restore(checkpoint)
        print(f"resumed at step {trainer.step}, {trainer.seconds / 60:.1f} min", flush=True)
    else:
        train_text(trainer.model, trainer.names, recipe.text_steps, seed=recipe.seed, report=report)
        trainer.read_names()
        if warm is not None:
            trainer.start_from(warm)
        save_model(trainer.published(), out, names)
    saved, measured = trainer.seconds, trainer.seconds
    while not trainer.finished:
        losses = trainer.advance()
        if trainer.step % 50 == 0:
            progress = " ".join(f"{k} {v:.3f}" for k, v in losses.items())
            print(
                f"step {trainer.step} {trainer.seconds / 60:.1f} min lr {trainer.rate():.5f} "
                + progress,
                flush=True,
            )
        if trainer.seconds - saved >= every or trainer.finished:
            saved = trainer.seconds
            trainer.save(checkpoint)
            model = trainer.published()
            save_model(model, out, names)
            if report and (saved - measured >= 2 * every or trainer.finished or measured == 0):
                measured = saved
                row = {"step": trainer.step, "minutes": saved / 60} | _measured(trainer, model)
                rounded = {k: round(v, 3) for k, v in row.items()}
                print("measured " + json.dumps(rounded), flush=True)
                history.add((trainer.step,), {k: v for k, v in rounded.items() if k != "step"})
    (out / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1) + "\n")


def _measured(trainer: Trainer, model: Any) -> dict[str, float]:
    names = [n.name for n in trainer.names]
    sprites = [level.cpu() for level in trainer.sprites]
    unseen = STYLES.index(UNSEEN_STYLE)
    scores = measure(model.cpu(), sprites, names, unseen=unseen, count=32, size=128)
    if trainer.validation is not None:
        scores |= measure_real(model, trainer.validation, names, count=96, size=128)
    return scores
