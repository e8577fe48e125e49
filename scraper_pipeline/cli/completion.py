"""The command ``completion``: click's own script for a shell."""

import click
from click.shell_completion import get_completion_class

_PROGRAM = "scraper-pipeline"
_VARIABLE = "_SCRAPER_PIPELINE_COMPLETE"  # the name under which click looks for it


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes SHELL complete the commands and options of this program.

    \b
    bash: eval "$(scraper-pipeline completion bash)"         in ~/.bashrc
    zsh:  eval "$(scraper-pipeline completion zsh)"          in ~/.zshrc, behind compinit
    fish: scraper-pipeline completion fish | source          in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"There is no completion for {shell}.")
    click.echo(kind(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
