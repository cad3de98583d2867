"""Metadata of a dataset in the Croissant format of MLCommons, for loaders and catalogs of data."""

from typing import Any

import pyarrow as pa

from cadmus.dataset.shards import SCHEMA
from cadmus.distribution import VERSION
from cadmus.docgen import hub
from cadmus.report.card import MEANINGS

SPECIFICATION = "http://mlcommons.org/croissant/1.0"
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that the specification recommends."""
_FORMAT = "application/x-parquet"
_LICENSE = "https://spdx.org/licenses/MIT.html"


def croissant(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a dataset: every file with its SHA-256, and one record set per split.

    It has no address and no date of publication, which are unknown before an upload.

    Args:
        manifest: as :func:`cadmus.dataset.manifest.read_manifest` returns it.
    """
    splits = list(dict.fromkeys(file["split"] for file in manifest["files"]))
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": SPECIFICATION,
        "name": f"cadmus-{manifest['name']}",
        "description": f"True programs of the Cadmus stack machine, dataset of the run {manifest['name']}, "
        f"content {manifest['digest']}.",
        "license": _LICENSE,
        "version": VERSION,
        "keywords": list(hub.TAGS),
        "citeAs": hub.BIBTEX,
        "distribution": [*map(_file, manifest["files"]), *map(_files, splits)],
        "recordSet": list(map(_records, splits)),
    }


def _file(file: dict[str, Any]) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": file["file"],
        "name": file["file"],
        "contentUrl": file["file"],
        "encodingFormat": _FORMAT,
        "sha256": file["sha256"],
    }


def _files(split: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": f"{split}-files",
        "name": f"{split}-files",
        "description": f"The shards of the split {split}, of all templates.",
        "encodingFormat": _FORMAT,
        "includes": f"{split}/*.parquet",
    }


def _records(split: str) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "description": f"The programs of the split {split}.",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{split}/{field.name}",
                "name": f"{split}/{field.name}",
                "description": MEANINGS[field.name],
                "dataType": "sc:Integer" if pa.types.is_integer(field.type) else "sc:Text",
                "source": {"fileSet": {"@id": f"{split}-files"}, "extract": {"column": field.name}},
            }
            for field in SCHEMA
        ],
    }
