"""Programs with the VM's stack after every token, as labels for probes and sparse autoencoders."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cadmus import isa
from cadmus.dataset.shards import METADATA_KEY, ROW_GROUP
from cadmus.programs import Samples
from cadmus.store import replacing
from cadmus.tools import progress
from cadmus.vm import reference

SCHEMA = pa.schema(
    [
        pa.field("template", pa.string(), nullable=False),
        pa.field("program", pa.string(), nullable=False),
        pa.field("prompt_length", pa.uint8(), nullable=False),
        pa.field("tokens", pa.list_(pa.uint8()), nullable=False),
        pa.field("stacks", pa.list_(pa.list_(pa.string())), nullable=False),
    ]
)
"""One row per program, without the end ``.``. ``tokens`` and ``stacks`` have an entry per instruction."""


def stacks(program: str) -> list[list[str]]:
    """Return the stack after every instruction, each value as ``cadmus run`` prints it."""
    return [[reference.show(value) for value in stack] for stack in reference.stacks(program)]


def write_states(path: Path, template: str, samples: Samples, metadata: dict[str, str | int]) -> None:
    """Write programs of one template with their stacks to a Parquet file, see :data:`SCHEMA`."""
    programs = samples.programs.to_strings()
    columns = {
        "template": [template] * len(programs),
        "program": programs,
        "prompt_length": samples.prompt_length,
        "tokens": [[isa.TOKEN_ID[symbol] for symbol in program] for program in programs],
        "stacks": [stacks(program) for program in progress("execute", programs, unit="program")],
    }
    noted = json.dumps({"isa_digest": isa.digest(), **metadata}, sort_keys=True).encode()
    table = pa.table(columns, schema=SCHEMA.with_metadata({METADATA_KEY: noted}))
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=ROW_GROUP)
