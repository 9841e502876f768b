"""A call of every command, also of those that come later: the app itself lists them."""

from dataclasses import dataclass

from napari_maskinversion.cli import app

from .attack import OUT
from .kinds import BATCHED, BOXES, DECODED, DRAWN, FAST, FOLDER, PROJECT, SEARCH, SHOW, run

# Calls that would work, or end once their options are checked, where `_guess` makes none.
CALLS = {
    "run": run(),
    "find": ("find", "image.png", "masks.png", "a car", *FAST),
    "imagine": DRAWN,
    "caption": DECODED,
    "segment": (*BOXES, "--out", f"{OUT}/b.tif"),
    "export": ("export", "results.npz", "--out", OUT),
    "rollout": ("rollout", "image.png", "--resolution", "64", "--out", f"{OUT}/r.png"),
    "demo": ("demo", "--out", OUT),
    "rebuild-demo": ("rebuild-demo", OUT, "--budget", "0"),
    # Refused by two options, so by one when the other is attacked: it would train for minutes.
    "rebuild-demo-captions": ("rebuild-demo-captions", OUT, "--steps", "0", "--sprites", "gone"),
    "models fetch": ("models", "fetch", "demo"),
    "models check": ("models", "check", "demo"),
    "models calibrate": (
        *("models", "calibrate", "demo", "results.npz"),
        "image.png.maskinversion.jsonl",
    ),
    "labels show": ("labels", "show", "labels.txt"),
    "labels convert": ("labels", "convert", "labels.txt", f"{OUT}/labels.csv"),
    "captions build": ("captions", "build", "captions.txt", "--out", f"{OUT}/bank"),
    "captions search": SEARCH,
    "project new": (*PROJECT[:2], f"{OUT}/project", *PROJECT[3:]),
    "project add": ("project", "add", "project", *PROJECT[3:7]),
    "project export": BATCHED[1],
    "project status": ("project", "status", "project"),
    "project check": ("project", "check", "project"),
    "batch": ("batch", "project", *FAST, "--format", "csv", "--out", OUT),
    "library new": ("library", "new", f"{OUT}/library"),
    "library add": ("library", "add", "library", "results.npz"),
    "library info": ("library", "info", "library"),
    "library search": ("library", "search", "library", "a car"),
    "library similar": ("library", "similar", "library", "1"),
    "library export": ("library", "export", "library", f"{OUT}/library.parquet"),
    "library remove": ("library", "remove", "library", "--label", "car"),
    "library train": ("library", "train", "library", "--out", f"{OUT}/classifier"),
    "library compact": ("library", "compact", "library"),
    "library verify": ("library", "verify", "library"),
    "bench folder": FOLDER,
    "bench speed": ("bench", "speed", "--device", "nowhere"),  # it would measure for minutes
    "bench show": SHOW,
}
# What a command that is not listed gets for a part of a parameter's name.
_FILES = {
    "image": "image.png",
    "mask": "masks.png",
    "region": "masks.png",
    "project": "project",
    "result": "results.npz",
    "caption": "captions.txt",
    "label": "labels.txt",
    "bank": "bank",
    "model": "demo",
    "folder": "set/images",
    "out": OUT,
    "target": OUT,
}
TEXT = "a car"


@dataclass(frozen=True)
class Command:
    """A command of the app."""

    name: str
    parameters: tuple

    @property
    def call(self):
        """Its words: those of `CALLS`, else guessed from the names of its parameters."""
        return CALLS.get(self.name) or (*self.name.split(), *self._guess())

    @property
    def options(self):
        """The options of a parameter that take a value, with the parameter."""
        return [
            (option, parameter)
            for parameter in self.parameters
            for option in [next((o for o in parameter.opts if o.startswith("--")), None)]
            if option is not None and not getattr(parameter, "is_flag", False)
        ]

    @property
    def arguments(self):
        """The parameters without an option, with their names, as far as the call has them."""
        words = self.call[len(self.name.split()) :]
        count = next((n for n, word in enumerate(words) if word.startswith("--")), len(words))
        arguments = [p for p in self.parameters if not any(o.startswith("-") for o in p.opts)]
        return [(parameter.name, parameter) for parameter in arguments[:count]]

    def call_with(self, name, value):
        """Return the call with a value for one of its `options` or `arguments`."""
        if name.startswith("--"):
            return (*self.call, name, value)
        place = len(self.name.split()) + [one for one, _ in self.arguments].index(name)
        return (*self.call[:place], value, *self.call[place + 1 :])

    def has(self, option):
        """Return whether it has an option."""
        return any(option in parameter.opts for parameter in self.parameters)

    def _guess(self):
        words = []
        for parameter in self.parameters:
            if parameter.required:
                value = next((v for k, v in _FILES.items() if k in parameter.name), TEXT)
                option = next((o for o in parameter.opts if o.startswith("--")), None)
                words += [value] if option is None else [option, value]
        if self.name.startswith("bench ") and self.name != "bench datasets":
            # A measurement of other data would fetch it; it ends at its model.
            model = next((o for o in ("--models", "--model") if self.has(o)), None)
            words += [] if model is None else [model, "nowhere"]
        return words


def _commands(group, *above):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, *above, name)
        else:
            yield Command(" ".join((*above, name)), tuple(command.params))


COMMANDS = list(_commands(app.command()))
