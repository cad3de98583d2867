"""Declared types of the JSON that Cadmus reads: the headers of sealed files, and the base of their contents.

A seal finds damage, but anyone can compute it. So :mod:`cadmus.store` reads a file into the type that is
declared for it, here or in :mod:`cadmus.columns`, and what does not fit is one line. Nothing checks it again.
"""

from typing import Annotated, Literal

from pydantic import Field

from cadmus.config.fields import Checked, PlainText

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 of a file."""


class Record(Checked):
    """A JSON object; keys that are not declared are ignored, as another version may have written them."""


class Header(Record):
    """Origin of a sealed file."""

    kind: PlainText
    isa_digest: PlainText
    commit: PlainText
    versions: dict[PlainText, PlainText] = Field({})
    files: dict[str, Digest] = Field({})
    """SHA-256 of the files that it seals, by name."""


class Sealed(Record):
    """A sealed JSON object, or the metadata of a sealed table."""

    cadmus: Header


class Origin(Record):
    """Metadata of results; metrics have no header while a training writes them."""

    cadmus: Header | None = None
    config_digest: PlainText | None = None
    model_digest: PlainText | None = None
    data_digest: PlainText | None = None
    split: Literal["validation", "test", "ood"] | None = None
