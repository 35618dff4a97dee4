"""`queryshift serve`: the HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option("--host", help="Address to listen on.  [default: that of FILE, else 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on.  [default: that of FILE, else 8080]")
@click.option(
    "--data", type=click.Path(path_type=Path), help="Folder of the database and of built galleries."
)
@click.option("--store", help="postgresql://…, for several replicas.  [default: SQLite in --data]")
@click.option("--device", help="Where models run, such as cuda:1.  [default: cpu]")
@click.option("--strict", is_flag=True, help="Stop at the first bad line of a file with queries.")
@click.option("--new-token", is_flag=True, help="Print a new token and its entry for FILE.")
def command(file: Path | None, new_token: bool, **given: Any) -> None:
    """Start the HTTP service for many tenants, with a web page.

    FILE is a serve.toml (docs/serve-toml.md). Without it, the service has a small bundled
    collection to try. Environment variables override FILE: QUERYSHIFT_PORT=9000.

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
