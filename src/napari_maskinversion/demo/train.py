"""Train the demo model: ``python -m napari_maskinversion.demo.train --budget 70 --out DIR``.

Runs on a CPU. The schedule follows the share of the time budget that is used, so a slower machine
takes fewer steps; everything random comes from the seed and the step's number. Started again with
the same ``--out`` it resumes.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .losses import bounded, caption_loss, coverage, descent_loss, name_loss
from .maps import encode
from .model import build_model, encode_text, normalise, save_model, tokenize, with_norm
from .probe import measure
from .scenes import SceneBatch, SceneStyle, compose, generator, pyramid
from .sprites import STYLES, UNSEEN_STYLE, load_sprites
from .vocabulary import NAMES, TEMPLATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that shapes a training run; shares are of the time budget."""

    minutes: float = 70.0
    seed: int = 0
    batch: int = 128
    large_batch: int = 96  # on 96 px
    learning_rate: float = 2e-3
    weight_decay: float = 0.05
    warmup: int = 100  # steps
    text_steps: int = 400  # before the clock starts
    tame_until: float = 0.12  # backgrounds and turns grow to their full strength until then
    singles_until: float = 0.2  # mainly single objects on 48 px before
    small_until: float = 0.5  # 64 px before, 96 px after
    descent_from: float = 0.3  # inversions are supervised from then on
    descent: float = 0.5
    descent_images: int = 32  # of a batch
    queries: int = 16
    names: tuple[str, ...] = NAMES


class Trainer:
    """A model, its optimiser, and how far they are."""

    def __init__(self, recipe: Recipe, sprites: list[Tensor]) -> None:
        self.recipe = recipe
        self.sprites = sprites
        drawn = STYLES[: sprites[0].shape[0]]
        self.styles = [i for i, s in enumerate(drawn) if s != UNSEEN_STYLE]
        self.model: Any = build_model(recipe.seed)
        visual = list(self.model.visual.parameters())
        groups = [
            {"params": [p for p in visual if p.ndim >= 2], "weight_decay": recipe.weight_decay},
            {"params": [p for p in visual if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.98))
        self.step = 0
        self.seconds = 0.0
        self.table = torch.zeros(0)

    def read_names(self) -> None:
        """Embed every name in every template: (templates, names, e), unit norm."""
        rows = [tokenize([t.format(n) for n in self.recipe.names]) for t in TEMPLATES]
        with torch.no_grad():
            told = torch.stack([encode_text(self.model, row) for row in rows])
        self.table = F.normalize(told, dim=-1)

    @property
    def progress(self) -> float:
        """Share of the budget that is used."""
        return min(1.0, self.seconds / (60 * self.recipe.minutes))

    def scene_batch(self, rng: torch.Generator) -> SceneBatch:
        """Draw the scenes of the present step."""
        r, p = self.recipe, self.progress
        if p < r.singles_until:
            size, most, single = (48, 48), 2, 0.9
        elif p < r.small_until:
            size, most, single = (64, 64), 3, 0.4
        else:
            sizes = [(96, 96)] * 6 + [(96, 128), (128, 96)]
            size = sizes[int(torch.randint(len(sizes), (1,), generator=rng))]
            most, single = 4, 0.25
        batch = r.batch if p < r.small_until else r.large_batch
        counts = torch.randint(2, most + 1, (batch,), generator=rng)
        counts[torch.rand(batch, generator=rng) < single] = 1
        wild = min(1.0, p / r.tame_until)
        look = SceneStyle(
            turn=0.1 + 0.35 * wild,
            upside_down=0.08 * wild,
            colour=0.06 + 0.16 * wild,
            grain=0.1 * wild,
            contrast=0.3 + 0.45 * wild,
            margin=0.34 - 0.2 * wild,
        )
        return compose(self.sprites, rng, counts, size, styles=self.styles, look=look)

    def advance(self) -> dict[str, float]:
        """Take one step; returns its losses."""
        began = time.perf_counter()
        r, p = self.recipe, self.progress
        rng = generator("train", r.seed * 10_000_000 + self.step)
        scene = self.scene_batch(rng)
        pick = torch.randint(len(TEMPLATES), (len(r.names),), generator=rng)
        names = self.table[pick, torch.arange(len(r.names))]
        image = encode(self.model.visual, normalise(scene.images))
        scale = self.model.logit_scale.exp().detach()
        losses = {"name": name_loss(image.embedding, names, scene.labels, scale)}
        told = {k: v.item() for k, v in losses.items()}
        if p >= r.descent_from:
            few = slice(0, r.descent_images)
            cover = coverage(scene.visible[few], image.grid)
            queries = torch.randperm(image.tokens.shape[1], generator=rng)[: r.queries]
            surrogate, told["descent"] = bounded(
                lambda leaf: descent_loss(
                    self.model.visual, leaf, names, scene.labels[few], cover, queries, scale
                ),
                image.first(r.descent_images),
            )
            grow = min(1.0, 0.2 + (p - r.descent_from) / 0.1)
            losses["descent"] = grow * r.descent * surrogate
        total = torch.stack(list(losses.values())).sum()
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate()
        self.optimiser.zero_grad(set_to_none=True)
        total.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.model.visual.parameters(), 1.0)
        self.optimiser.step()
        self.step += 1
        self.seconds += time.perf_counter() - began
        return told | {"gradient": norm.item()}

    def rate(self) -> float:
        """Learning rate of the present step: warm-up, then cosine over the budget."""
        cosine = 0.5 * (1 + math.cos(math.pi * self.progress))
        return (
            self.recipe.learning_rate
            * min(1.0, (self.step + 1) / self.recipe.warmup)
            * max(cosine, 0.01)
        )

    def finished(self) -> Any:
        """Return a copy of the model, its image embeddings at the norm it is published with."""
        rng = generator("validation", 0)
        counts = torch.tensor([1, 3] * 32)
        scene = compose(self.sprites, rng, counts, (96, 96), styles=self.styles)
        return with_norm(self.model, normalise(scene.images))

    def save(self, path: Path) -> None:
        """Write a checkpoint whole or not at all."""
        part = path.with_suffix(".part")
        torch.save(
            {
                "model": self.model.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "step": self.step,
                "seconds": self.seconds,
            },
            part,
        )
        part.replace(path)

    def restore(self, path: Path) -> None:
        """Continue where a checkpoint stopped."""
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.seconds = state["step"], state["seconds"]
        self.read_names()


def caption(names: list[str], rng: torch.Generator) -> str:
    """Describe a scene in one of a few ways, the names in random order."""
    order = torch.randperm(len(names), generator=rng).tolist()
    listed = [f"a {names[i]}" for i in order]
    text = " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)
    starts = ("", "a photo of ", "a picture of ", "there is ")
    return starts[int(torch.randint(len(starts), (1,), generator=rng))] + text


def train_text(model: Any, recipe: Recipe, *, report: bool = True) -> None:
    """Teach the text tower to keep names apart whatever the template, and captions between them.

    Images then have fixed, well separated targets: trained together, both towers idle for hundreds
    of steps before they agree on anything.
    """
    # 6.3 of 7.6 million parameters; random ones tell the few words apart, if they are loud enough
    embedding = model.token_embedding.weight.requires_grad_(False)
    embedding *= 0.2 / embedding.std()
    tower = [p for n, p in model.named_parameters() if p.requires_grad and "visual" not in n]
    optimiser = torch.optim.AdamW(tower, lr=1e-3)
    names = list(recipe.names)
    for step in range(recipe.text_steps):
        rng = generator("train", recipe.seed * 10_000_000 + 9_000_000 + step)
        optimiser.param_groups[0]["lr"] = 1e-3 * (1 - step / recipe.text_steps)
        picks = torch.randint(len(TEMPLATES), (2, len(names)), generator=rng).tolist()
        texts = [TEMPLATES[t].format(n) for row in picks for t, n in zip(row, names, strict=True)]
        labels = torch.rand(32, len(names), generator=rng).argsort(1)[:, :4]
        counts = torch.randint(2, 5, (32, 1), generator=rng)
        labels = torch.where(torch.arange(4) < counts, labels, -1)
        told = [caption([names[i] for i in row if i >= 0], rng) for row in labels.tolist()]
        found = F.normalize(encode_text(model, tokenize(texts + told)), dim=-1)
        one, two, mixed = found.split([len(names), len(names), 32])  # type: ignore[no-untyped-call]
        apart = caption_loss(one, two, torch.tensor(14.0))
        between = name_loss(mixed, one, labels, torch.tensor(14.0))
        optimiser.zero_grad(set_to_none=True)
        (apart + between).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if report and (step + 1) % 100 == 0:
            print(f"text {step + 1} apart {apart:.3f} between {between:.3f}", flush=True)
    model.requires_grad_(True)


def train(
    recipe: Recipe, out: Path, sprites: list[Tensor], *, every: float = 300.0, report: bool = True
) -> Trainer:
    """Run a recipe to the end of its budget, saving and measuring every so many seconds."""
    out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(recipe, sprites)
    checkpoint = out / "checkpoint.pt"
    if checkpoint.is_file():
        trainer.restore(checkpoint)
        print(f"resumed at step {trainer.step}, {trainer.seconds / 60:.1f} min", flush=True)
    else:
        train_text(trainer.model, recipe, report=report)
        trainer.read_names()
        save_model(trainer.finished(), out, list(recipe.names))
    saved = trainer.seconds
    while trainer.progress < 1:
        losses = trainer.advance()
        if trainer.step % 50 == 0:
            told = " ".join(f"{k} {v:.3f}" for k, v in losses.items())
            print(
                f"step {trainer.step} {trainer.seconds / 60:.1f} min lr {trainer.rate():.5f} "
                + told,
                flush=True,
            )
        if trainer.seconds - saved >= every or trainer.progress >= 1:
            saved = trainer.seconds
            trainer.save(checkpoint)
            finished = trainer.finished()
            save_model(finished, out, list(recipe.names))
            if report:
                unseen = STYLES.index(UNSEEN_STYLE)
                found = measure(
                    finished, sprites, list(recipe.names), unseen=unseen, count=32, size=96
                )
                row = {"step": trainer.step, "minutes": trainer.seconds / 60} | found
                print(
                    "measured " + json.dumps({k: round(v, 3) for k, v in row.items()}), flush=True
                )
                with (out / "history.jsonl").open("a") as file:
                    file.write(json.dumps(row) + "\n")
    (out / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1))
    return trainer


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Train the bundled demo model.")
    parser.add_argument(
        "--budget", type=float, default=70.0, help="minutes of training (default 70)"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for checkpoint, history and weights"
    )
    parser.add_argument(
        "--sprites", type=Path, help="an existing node_modules folder with the emoji sets"
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    sprites = pyramid(load_sprites(given.sprites, size=128), levels=4)
    train(Recipe(minutes=given.budget, seed=given.seed), given.out, sprites)


if __name__ == "__main__":
    main()
