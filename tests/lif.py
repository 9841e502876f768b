"""Files of Leica's microscopes, written from the format's description."""

import struct

import numpy as np

_CHANNEL = (
    '<ChannelDescription DataType="0" ChannelTag="0" Resolution="8" NameOfMeasuredQuantity="" '
    'Min="0" Max="255" Unit="" LUTName="{}" IsLUTInverted="0" BytesInc="{}" BitInc="0"/>'
)
_DIMENSION = (
    '<DimensionDescription DimID="{}" NumberOfElements="{}" Origin="0" Length="{}" Unit="m" '
    'BitInc="0" BytesInc="{}"/>'
)


def write_lif(path, images, *, pixel=5e-7):
    """Write images (c, y, x) uint8 by name, each a scene of its own; ``pixel`` is in metres."""
    elements, blocks = [], []
    for number, (name, array) in enumerate(images.items()):
        count, height, width = array.shape
        channels = "".join(
            _CHANNEL.format(colour, index * height * width)
            for index, colour in zip(range(count), ("Green", "Red", "Blue"), strict=False)
        )
        dimensions = _DIMENSION.format(1, width, pixel * (width - 1), 1)
        dimensions += _DIMENSION.format(2, height, pixel * (height - 1), width)
        elements.append(
            f'<Element Name="{name}" Visibility="1" CopyOption="1" UniqueID="{number}"><Data>'
            f"<Image><ImageDescription><Channels>{channels}</Channels><Dimensions>{dimensions}</Dimensions>"
            f'</ImageDescription></Image></Data><Memory Size="{array.size}" '
            f'MemoryBlockID="MemBlock_{number}"/></Element>'
        )
        blocks.append((f"MemBlock_{number}", np.ascontiguousarray(array).tobytes()))
    xml = (
        '<LMSDataContainerHeader Version="2"><Element Name="a.lif" Visibility="1" CopyOption="1" '
        'UniqueID="a"><Data><Experiment/></Data><Memory Size="0" MemoryBlockID="MemBlock_x"/>'
        f"<Children>{''.join(elements)}</Children></Element></LMSDataContainerHeader>"
    )
    with path.open("wb") as file:
        file.write(_chunk(b"\x2a" + _text(xml)))
        for name, data in blocks:
            file.write(_chunk(b"\x2a" + struct.pack("<Q", len(data)) + b"\x2a" + _text(name)))
            file.write(data)


def _text(text):
    return struct.pack("<i", len(text)) + text.encode("utf-16-le")


def _chunk(content):
    return struct.pack("<ii", 0x70, len(content)) + content
