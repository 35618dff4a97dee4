"""`queryshift serve`: the HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option("--host", help="Address to listen at; 127.0.0.1 where the file has none.")
@click.option("--port", type=int, help="Port to listen at; 8080 where the file has none.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder of what must not be lost.")
@click.option("--store", help="postgresql://…, where several processes serve; else SQLite.")
@click.option("--device", help="Where models run whose collection does not say: cuda:1.")
@click.option("--strict", is_flag=True, help="Stop at the first bad line of a file of queries.")
@click.option("--new-token", is_flag=True, help="Make a token and its entry for the file.")
def command(file: Path | None, new_token: bool, **given: Any) -> None:
    """Serve adaptation for many tenants over HTTP, with a page to look at it.

    FILE is a serve.toml; without it the embedded world is served at this machine's own address.
    Every setting can be overridden by the environment: QUERYSHIFT_PORT=9000.

    \b
    $ queryshift serve
    $ queryshift serve serve.toml --port 9000
    $ queryshift serve --new-token
    """
    from queryshift.support.optional import need

    for module in ("fastapi", "uvicorn", "pydantic_settings", "prometheus_client", "sqlalchemy"):
        need(module, "serve", "the service")
    if new_token:
        _show_new_token()
        return
    from queryshift.serving.serve import serve
    from queryshift.serving.settings import read_settings

    settings = read_settings(file, **given)
    shown = "http" if settings.tls_certificate is None else "https"
    click.echo(f"Loading; then open {shown}://{settings.host}:{settings.port}/", err=True)
    serve(settings)


def _show_new_token() -> None:
    from queryshift.serving.http.access import digest, new_token

    token = new_token()
    click.echo(f"The token, for the client; it is shown only here: {token}", err=True)
    click.echo(f'[[tokens]]\nname = "client"\nsha256 = "{digest(token)}"\nscopes = ["read"]')
