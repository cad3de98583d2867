"""``cadmus push``."""

from pathlib import Path

import click

from cadmus.cli.options import DIRECTORY, MODEL, echo, echo_table


@click.command()
@click.argument("directory", type=MODEL)
@click.option("--to", "name", required=True, metavar="NAME", help="Repository, USER/NAME on the Hub.")
@click.option(
    "--snapshots",
    type=DIRECTORY,
    metavar="DIR",
    help="Snapshots of the training of a model; each becomes a revision such as step1000.",
)
@click.option(
    "--private", is_flag=True, help="If the repository does not exist yet, create it as a private one."
)
@click.option("--yes", is_flag=True, help="Upload the files; by default they are only listed.")
def push(directory: Path, name: str, snapshots: Path | None, private: bool, yes: bool) -> None:
    """Upload a model or dataset to the Hugging Face Hub.

    DIRECTORY is a model export or a finished dataset. Without --yes, the command only lists the files; that
    needs neither a token nor the network. With --yes it uploads them. Hidden files are left out.

    The token comes from `hf auth login` or HF_TOKEN.

    \b
    Examples:
      cadmus push results/quick/model --to USER/cadmus-quick --snapshots results/quick/training/snapshots
      cadmus push results/quick/dataset --to USER/cadmus-quick --yes
    """
    from cadmus import publish

    planned = publish.plan(directory, name, snapshots)
    if yes:
        publish.push(planned, private, echo)
        return
    sizes = {
        (revision, path): file.stat().st_size
        for revision, files in planned.uploads
        for path, file in files.items()
    }
    echo_table(
        [("file", "revision", "bytes")]
        + [(path, revision, f"{size:,}") for (revision, path), size in sizes.items()]
    )
    echo(
        f"\n{len(sizes)} files, {sum(sizes.values()) / 1e6:,.1f} MB, would go to the {planned.kind} "
        f"{planned.url}\nNothing was uploaded; --yes uploads."
    )
