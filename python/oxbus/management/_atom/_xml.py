# SPDX-License-Identifier: Apache-2.0
"""Reading and writing XML. An answer is untrusted: it is limited, and may have no document type.

A document type could define entities that grow while they are read ("billion laughs"), or that name files.
Elements are known by their local names: no two elements of one parent differ only in their namespaces.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn
from xml.parsers import expat

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPTH_MAX: Final = 32
ELEMENTS_MAX: Final = 100_000
"""A page of 100 entities with 12 authorization rules each has about 20,000."""

_SEPARATOR: Final = " "
"""What expat writes between the namespace and the name; neither can contain it."""


class MalformedXmlError(ValueError):
    """A text is not XML, or exceeds a limit; the text of the error says why."""


@dataclass(slots=True)
class Element:
    """An element with its contents."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def child(self, name: str) -> Element | None:
        """Return the first child of that name."""
        return next((child for child in self.children if child.name == name), None)

    def all(self, name: str) -> Iterator[Element]:
        """Iterate over the children of that name."""
        return (child for child in self.children if child.name == name)

    def text_of(self, name: str) -> str | None:
        """Return the text of a child; None if there is no such child."""
        child = self.child(name)
        return None if child is None else child.text

    @property
    def type(self) -> str:
        """The value of the attribute ``i:type`` without its prefix; empty without the attribute."""
        return self.attributes.get("type", "").rpartition(":")[2]


def parse(document: bytes) -> Element:
    """Read a document.

    Raises:
        MalformedXmlError: It is not XML, has a document type, or exceeds a limit.
    """
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = reader.refuse_document_type
    try:
        parser.Parse(document, True)
    except expat.ExpatError as error:
        raise MalformedXmlError(str(error)) from error
    return reader.root.children[0]


class _Reader:
    """Builds the elements of a document below a root without a name."""

    def __init__(self) -> None:
        self.root = Element("")
        self._open = [self.root]
        self._texts: list[list[str]] = [[]]
        self._count = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) > DEPTH_MAX or self._count > ELEMENTS_MAX:
            raise MalformedXmlError(f"it has more than {ELEMENTS_MAX:,} elements, or {DEPTH_MAX} levels")
        element = Element(_local(name), {_local(key): value for key, value in attributes.items()})
        self._open[-1].children.append(element)
        self._open.append(element)
        self._texts.append([])

    def end(self, _: str) -> None:
        self._open.pop().text = "".join(self._texts.pop())

    def characters(self, text: str) -> None:
        self._texts[-1].append(text)

    @staticmethod
    def refuse_document_type(*_: object) -> NoReturn:
        raise MalformedXmlError("it has a document type")


def _local(name: str) -> str:
    return name.rpartition(_SEPARATOR)[2]


class XmlWriter:
    """Writes elements one after the other."""

    def __init__(self) -> None:
        """Create an empty text."""
        self._parts: list[str] = []

    def open(self, name: str, attributes: str = "") -> None:
        """Open an element. Attributes are not escaped."""
        self._parts.append(f"<{name} {attributes}>" if attributes else f"<{name}>")

    def close(self, name: str) -> None:
        """Close an element."""
        self._parts.append(f"</{name}>")

    def text(self, name: str, text: str, attributes: str = "") -> None:
        """Write an element with text.

        Raises:
            ValueError: The text has a character that XML cannot represent.
        """
        self.open(name, attributes)
        self._parts.append(_escaped(name, text))
        self.close(name)

    def finish(self) -> bytes:
        """Return the document."""
        return "".join(self._parts).encode()


_ESCAPES: Final = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("\r"): "&#13;"}


def _escaped(name: str, text: str) -> str:
    for letter in text:
        if not _is_xml(letter):
            raise ValueError(
                f"{name} has a character that cannot be sent to a server; remove it: character=U+{ord(letter):04X}"
            )
    return text.translate(_ESCAPES)


def _is_xml(letter: str) -> bool:
    return letter in "\t\n\r" or " " <= letter <= "\ud7ff" or "\ue000" <= letter <= "\ufffd" or letter >= "\U00010000"
