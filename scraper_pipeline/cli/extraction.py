"""The command that extracts one page while one waits."""

import asyncio

import click

from scraper_pipeline.accounts import open_client
from scraper_pipeline.cli.common import Address, clear_errors, json_option, print_json
from scraper_pipeline.scraper_api import ExtractedPage, ExtractOptions
from scraper_pipeline.settings import load_settings


@click.command()
@click.argument("url", type=Address())
@click.option(
    "--format", "page_format", type=click.Choice(["markdown", "html"]), default="markdown", show_default=True
)
@click.option("--render-js", is_flag=True, help="Load the page in a browser.")
@json_option
@clear_errors
def extract(url: str, page_format: str, render_js: bool, as_json: bool) -> None:
    """Extract one page now and print it. It is paid, and recorded nowhere."""
    options = ExtractOptions.from_mapping({"formats": [page_format], "render_js": render_js})

    async def ask() -> ExtractedPage:
        async with open_client(load_settings()) as client:
            return await client.extract(url, options)

    found = asyncio.run(ask())
    content = (found.page.markdown if page_format == "markdown" else found.page.html) if found.page else None
    if as_json:
        print_json(
            {"url": url, page_format: content, "metadata": found.metadata, "charged": found.tokens_charged}
        )
    else:
        click.echo(content or "")
