"""Files that parse, with one value that nobody expects there."""

import io
import json
import shutil
import struct
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pytest
import tifffile
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from . import ROUNDS
from .attack import OUT, attack
from .conftest import LIMIT
from .kinds import KINDS

STRANGE = (
    *(None, True, -1, 0, 2**31, 2**63, 2**70, 10**9, 0.5, 1e308, -1e308),
    *(float("nan"), float("inf"), "", "x" * 300, "\0", "../..", "=1+1", "1", "\ud800"),
    *([], {}, [[]], [None], [1, 2], {"a": 1}, [[0.0] * 3] * 3, ["a"] * 2000),
    json.loads("[" * 200 + "]" * 200),
)


def _json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line]


def _line(value):
    return json.dumps(value)


def _lines(values):
    return "\n".join(map(_line, values if isinstance(values, list) else [values])) + "\n"


def _of_archive(data):
    with np.load(io.BytesIO(data)) as file:
        return json.loads(bytes(file["record"]))


def _into_archive(value, data):
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["record"] = np.frombuffer(json.dumps(value).encode(), np.uint8)
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return packed.getvalue()


def _of_safetensors(data):
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def _into_safetensors(value, data):
    header = json.dumps(value).encode()
    return (
        len(header).to_bytes(8, "little") + header + data[8 + int.from_bytes(data[:8], "little") :]
    )


def _of_text(parse):
    return lambda data: parse(data.decode())


def _into_text(write):
    return lambda value, data: write(value).encode("utf-8", "surrogatepass")


def _of_xml(text):
    return _parts(ElementTree.fromstring(text))


def _parts(element):
    children = [_parts(child) for child in element]
    attributes = {name: one for name, one in element.attrib.items() if "}" not in name}
    return [element.tag, attributes, element.text or "", *children]


def _xml(value):
    """Write what `_of_xml` returns; anything else stands there as text."""
    if not (isinstance(value, list) and len(value) > 2 and isinstance(value[1], dict)):
        return escape(str(value))
    tag, attributes, text, *children = value
    ours = tag.rpartition("}") if isinstance(tag, str) else ("", "", str(tag))
    space = f" xmlns={quoteattr(ours[0][1:])}" if ours[0] else ""
    named = "".join(f" {name}={quoteattr(str(one))}" for name, one in attributes.items())
    return f"<{ours[2]}{space}{named}>{escape(str(text))}{''.join(map(_xml, children))}</{ours[2]}>"


def _of_ome(data):
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        return _of_xml(file.pages[0].description)


def _into_ome(value, data):
    return _with_comment(data, _xml(value))


def _with_comment(data, text):
    """Put a description at the end of a TIFF file, and let its first page point there."""
    content, comment = bytearray(data), text.encode("utf-8", "surrogatepass") + b"\0"
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        tag = file.pages[0].tags["ImageDescription"].offset
    struct.pack_into("<II", content, tag + 4, len(comment), len(content))
    return bytes(content) + comment


def _of_ndpi(data):
    """Return tags as code, type, count and value: `write_ndpi` keeps the values in the tags."""
    (place,) = struct.unpack_from("<Q", data, 4)
    (count,) = struct.unpack_from("<H", data, place)
    return [list(struct.unpack_from("<HHII", data, place + 2 + 12 * n)) for n in range(count)]


def _into_ndpi(value, data):
    (place,) = struct.unpack_from("<Q", data, 4)
    tags = value if isinstance(value, list) else []
    entries = b"".join(_tag(tag) for tag in tags)
    return data[:place] + struct.pack("<H", len(tags)) + entries + bytes(16 + 4 * len(tags))


def _tag(values):
    values = values if isinstance(values, list) else [values]
    numbers = [int(one) if isinstance(one, int) else 0 for one in values][:4]
    numbers += [0] * (4 - len(numbers))
    sizes = (2**16, 2**16, 2**32, 2**32)
    return struct.pack("<HHII", *(one % size for one, size in zip(numbers, sizes, strict=True)))


def _of_words(text):
    return [line.split() for line in text.splitlines()]


def _words(value):
    lines = value if isinstance(value, list) else [value]
    return "\n".join(
        " ".join(map(str, line)) if isinstance(line, list) else str(line) for line in lines
    )


JSON = (_of_text(json.loads), _into_text(_line))
LINES = (_of_text(_json_lines), _into_text(_lines))
XML = (_of_text(_of_xml), _into_text(_xml))
YAML = (_of_text(yaml.safe_load), _into_text(yaml.safe_dump))
FORMATS = {
    "coco": JSON,
    "geojson": JSON,
    "labelme": JSON,
    "coco panoptic": JSON,
    "mark of a batch": JSON,
    "project": YAML,
    "model config": JSON,
    "preferences": JSON,
    "figures": JSON,
    "zarr metadata": JSON,
    "ome-zarr metadata": JSON,
    "bank record": LINES,
    "decisions": LINES,
    "label yaml": YAML,
    "archive": (_of_archive, _into_archive),
    "voc": XML,
    "cvat": XML,
    "yolo": (_of_text(_of_words), _into_text(_words)),
    "ome-tiff": (_of_ome, _into_ome),
    "ndpi": (_of_ndpi, _into_ndpi),
    "caption decoder": (_of_safetensors, _into_safetensors),
    "prior": (_of_safetensors, _into_safetensors),
    "diffusion config": JSON,
    "model weights": (_of_safetensors, _into_safetensors),
}


def places(value, path=()):
    """Yield the paths of all values in nested lists and objects."""
    yield path
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in list(keys)[:20]:
            yield from places(value[key], (*path, key))


def changed(value, path, strange):
    """Return the value with something strange at a path; ``...`` leaves the place out."""
    if not path:
        return None if strange is ... else strange
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    if not rest and strange is ...:
        del copy[key]
    else:
        copy[key] = changed(value[key], rest, strange)
    return copy


@pytest.mark.parametrize("kind", [k for k in KINDS if k.name in FORMATS], ids=lambda k: k.name)
def test_a_file_is_written_again_as_it_was(place, kind):
    parse, write = FORMATS[kind.name]
    data = (place / kind.file).read_bytes()
    assert parse(write(parse(data), data)) == parse(data)


@pytest.mark.timeout(LIMIT * ROUNDS, func_only=True)
@pytest.mark.parametrize("kind", [k for k in KINDS if k.name in FORMATS], ids=lambda k: k.name)
def test_a_strange_value_is_read_or_named(call, place, kind):
    parse, write = FORMATS[kind.name]
    file = place / kind.file
    data = file.read_bytes()
    whole = parse(data)
    paths = list(places(whole))

    @settings(settings.get_profile("fuzz"))
    @given(st.sampled_from(paths), st.sampled_from((..., *STRANGE)), st.sampled_from(kind.commands))
    def examples(path, strange, command):
        content = write(changed(whole, path, strange), data)
        file.unlink()  # it may be a link to the file that all cases share
        file.write_bytes(content)
        shutil.rmtree(place / OUT, ignore_errors=True)
        attack(call, place, *command, names=kind.names)

    examples()
