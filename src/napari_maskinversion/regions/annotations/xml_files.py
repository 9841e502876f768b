"""Read XML with clear errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from ...base.errors import InputError
from ...base.reading import MOST_JSON, check_file

_WHOLE: Final = re.compile(r"\s*([0-9]{1,9})(\.0*)?\s*")


def read_xml(path: Path) -> Any:
    """Read an XML file; refuses entities, which can be made to fill the memory."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, parse

    check_file(path, "file of regions", most=MOST_JSON)
    try:
        return parse(path).getroot()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from None
    except ParseError as error:
        raise InputError(f"{path} is broken XML: {error}.") from None
    except DefusedXmlException:
        raise InputError(
            f"{path} contains XML entities, which can be harmful; remove them."
        ) from None
    except (LookupError, ValueError) as error:  # unknown encoding
        raise InputError(f"{path} cannot be read ({error}); save it as UTF-8.") from None


def whole_number(text: str | None) -> int | None:
    """Return the whole number of a text; None for anything else, also for digits without end."""
    match = _WHOLE.fullmatch(text or "")
    return int(match.group(1)) if match else None
