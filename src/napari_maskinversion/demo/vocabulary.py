"""The names that the bundled demo model knows, and the drawings that show them.

Each name lists the icon names under which the emoji sets file its drawing; a set uses the first
that it has.
"""

from __future__ import annotations

from typing import Final

ICONS: Final[dict[str, tuple[str, ...]]] = {
    # animals
    "elephant": ("elephant",),
    "penguin": ("penguin",),
    "fish": ("tropical-fish", "tropicalfish"),
    "turtle": ("turtle",),
    "octopus": ("octopus",),
    "ladybug": ("lady-beetle", "ladybeetle"),
    "snail": ("snail",),
    "whale": ("spouting-whale", "spurtingwhale"),
    "frog": ("frog", "frog-face", "frogface"),
    # food
    "apple": ("red-apple", "redapple"),
    "banana": ("banana",),
    "strawberry": ("strawberry",),
    "watermelon": ("watermelon",),
    "hamburger": ("hamburger",),
    "doughnut": ("doughnut",),
    "grapes": ("grapes",),
    "pineapple": ("pineapple",),
    "pizza": ("pizza", "sliceofpizza"),
    "ice cream": ("soft-ice-cream", "softicecream"),
    "birthday cake": ("birthday-cake", "birthdaycake"),
    # vehicles
    "car": ("automobile",),
    "bus": ("bus",),
    "airplane": ("airplane",),
    "rocket": ("rocket",),
    "sailboat": ("sailboat",),
    "bicycle": ("bicycle",),
    "tractor": ("tractor",),
    "helicopter": ("helicopter",),
    # plants
    "sunflower": ("sunflower",),
    "cactus": ("cactus",),
    "palm tree": ("palm-tree", "palmtree"),
    "mushroom": ("mushroom",),
    # objects
    "guitar": ("guitar",),
    "camera": ("camera",),
    "umbrella": ("umbrella-with-rain-drops", "umbrella", "umbrellawithraindrops"),
    "key": ("key",),
    "house": ("house", "housebuilding"),
    "soccer ball": ("soccer-ball", "soccerball"),
    "balloon": ("balloon",),
    "crown": ("crown",),
}

NAMES: Final[tuple[str, ...]] = tuple(ICONS)

TEMPLATES: Final[tuple[str, ...]] = (
    "{}",
    "a {}",
    "a photo of a {}",
    "a photo of a {}.",
    "a picture of a {}",
    "an image of a {}",
    "a photo of the {}",
    "a drawing of a {}",
    "a photo of one {}",
    "there is a {} in the scene",
)
