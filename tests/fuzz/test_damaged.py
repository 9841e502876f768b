"""Files of every kind, damaged: a command reads them or refuses them in one line."""

import random

import pytest

from . import ROUNDS
from .attack import attack
from .kinds import KINDS
from .mutations import MUTATIONS

# In the short form every third way for a kind, so that each way meets a third of the kinds.
CASES = [
    (kind, mutation, seed)
    for number, kind in enumerate(KINDS)
    for place, mutation in enumerate(MUTATIONS)
    for seed in range(ROUNDS)
    if ROUNDS > 1 or (number + place) % 3 == 0
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_whole_file_is_read(call, place, kind):
    assert attack(call, place, *kind.commands[0]).code == 0


@pytest.mark.parametrize(
    ("kind", "mutation", "seed"), CASES, ids=[f"{k.name}-{m}-{s}" for k, m, s in CASES]
)
def test_a_damaged_file_is_read_or_named(call, place, kind, mutation, seed):
    chance = random.Random(f"{kind.name} {mutation} {seed}")
    path = place / kind.file
    damaged = MUTATIONS[mutation](path.read_bytes(), chance)
    path.unlink()  # it may be a link to the file that all cases share
    path.write_bytes(damaged)
    attack(call, place, *chance.choice(kind.commands), names=kind.names)
