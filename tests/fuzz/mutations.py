"""Ways to damage a file, as disks, networks and other programs do."""


def _cut(share):
    return lambda data, chance: data[: int(len(data) * share)]


def _flip(data, chance, count=4, end=None):
    damaged = bytearray(data)
    for _ in range(count):
        damaged[chance.randrange(min(end or len(data), len(data)))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def _run_of(byte):
    def fill(data, chance):
        start = chance.randrange(len(data))
        length = chance.randint(1, max(1, len(data) // 4))
        return data[:start] + bytes([byte]) * length + data[start + length :]

    return fill


def _repeat(data, chance):
    start, end = sorted(chance.randrange(len(data)) for _ in range(2))
    return data[:end] + data[start:end] + data[end:]


def _leave_out(data, chance):
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.randint(1, max(1, len(data) // 4)) :]


MUTATIONS = {
    "empty": lambda data, chance: b"",
    "noise": lambda data, chance: chance.randbytes(300),
    "a text": lambda data, chance: "Grüße,\n1;2\t{".encode("latin-1"),
    "cut short": _cut(0.05),
    "cut in half": _cut(0.5),
    "cut at the end": _cut(0.97),
    "bits in the header": lambda data, chance: _flip(data, chance, 2, 120),
    "bits anywhere": lambda data, chance: _flip(data, chance, 6),
    "zeros": _run_of(0),
    "ones": _run_of(255),
    "repeated": _repeat,
    "left out": _leave_out,
}
