"""`holdfast agent`: lets a master on another machine start and watch processes on this one."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.output import note
from holdfast.cluster.agents.handshake import read_secret
from holdfast.cluster.agents.server import GRACE_S, AgentSettings, serve
from holdfast.model.errors import ConfigError
from holdfast.runtime.logs import install
from holdfast.runtime.places import place_of

DIRECTORY = Path(".holdfast-agent")
PORT = 7300


def agent(
    listen: Annotated[
        str, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Where masters reach it.")
    ] = f"127.0.0.1:{PORT}",
    secret_file: Annotated[
        Path | None,
        typer.Option("--secret-file", help="A file with the secret that masters have, too. Required beyond loopback."),
    ] = None,
    directory: Annotated[
        Path, typer.Option("--directory", "-d", help="For logs, traces and state of the processes that it starts.")
    ] = DIRECTORY,
    grace_s: Annotated[
        float,
        typer.Option(
            "--grace-s", min=0.0, max=3600.0, help="So long processes of a play outlive a master that is gone."
        ),
    ] = GRACE_S,
) -> None:
    """Start, stop and watch processes of clusters on this machine for a master elsewhere. It logs JSON lines to stderr.

    The cluster file of the master names this machine: `[machines.m1]`, `address = "HOST:PORT"`, and
    `machine = "m1"` for brokers, repositories and clients. Then up, down, status, why, crash, freeze, thaw, restart,
    cut, heal and play work across machines.

    A master has to know the secret: from --secret-file here and `secret_file` there, or from the environment variables
    HOLDFAST_AGENT_SECRET_FILE or HOLDFAST_AGENT_SECRET. Without a secret an agent listens on loopback only. What they
    say to each other is authenticated, and not encrypted.

    Its processes outlive it: an agent that is started again in the same directory finds them. Those of `holdfast play`
    end ten seconds after their master is gone.

    \b
    Examples
      openssl rand -hex 32 > agent.secret && chmod 600 agent.secret
      holdfast agent --listen 10.0.0.1:7300 --secret-file agent.secret
      holdfast agent                                   # for tries on this machine
    """
    place = place_of(listen)
    if place is None or not 0 <= place[1] <= 65535:
        raise ConfigError(f"--listen {listen!r} is no address; write HOST:PORT, as in 10.0.0.1:{PORT}.")
    settings = AgentSettings(place[0], place[1], directory, read_secret(secret_file), grace_s)
    settings.check()
    install()
    asyncio.run(serve(settings, lambda port: note(f"the agent listens on {place[0]}:{port}")))
