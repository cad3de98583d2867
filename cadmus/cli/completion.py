"""``cadmus completion``."""

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
def completion(shell: str) -> None:
    """Print the script by which SHELL completes cadmus on Tab.

    It completes commands, options, files, and the names of templates, splits and figures. Put it where the
    shell looks for such scripts and open a new shell:

    \b
    Examples:
      cadmus completion bash > ~/.local/share/bash-completion/completions/cadmus
      cadmus completion zsh > "${fpath[1]}/_cadmus"
      cadmus completion fish > ~/.config/fish/completions/cadmus.fish

    In bash this needs the package bash-completion; without, `eval "$(cadmus completion bash)"` in ~/.bashrc
    does the same. The folder has to be there.
    """
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root()
    kind = get_completion_class(shell)
    assert kind is not None, "one of the shells of click"
    click.echo(kind(root.command, {}, "cadmus", "_CADMUS_COMPLETE").source())


COMMANDS = (completion,)
