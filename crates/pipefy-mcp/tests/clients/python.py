"""The official Python SDK as a client of the built server, in both eras of the protocol.

    python python.py stdio PROGRAM | http URL | hosted URL

Run by .ci/clients.
"""

import asyncio
import json
import os
import sys
import urllib.request
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

MODE, TARGET = sys.argv[1:]
ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}


@asynccontextmanager
async def connected(era, bearer=None):
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    with open(os.devnull, "w", encoding="utf-8") as unheard:
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            if MODE == "stdio":
                server = StdioServerParameters(command=TARGET, args=["--sandbox", "--sandbox-data", ":memory:"])
                transport = stdio_client(server, errlog=unheard)
            else:
                transport = streamable_http_client(TARGET, http_client=http)
            async with Client(transport, mode=era) as client:
                assert client.server_info.name == "pipefy"
                assert client.protocol_version == ERAS[era], client.protocol_version
                yield client


async def call(client, name, **arguments):
    """What the tool answered, which comes as text and as structured content."""
    answer = await client.call_tool(name, arguments)
    assert json.loads(answer.content[0].text) == answer.structured_content
    return answer.structured_content


def pipes(found):
    return {pipe["id"] for organization in found["organizations"] for pipe in organization["pipes"]}


async def story(client):
    """Lists, reads, previews, confirms, fails."""
    tools = (await client.list_tools()).tools
    # A hosted server leaves out the few that need the caller's own machine.
    assert len(tools) >= (190 if MODE == "hosted" else 196), len(tools)
    pipe = min(pipes(await call(client, "search_pipes")))
    cards = await call(client, "get_cards", pipe_id=pipe)
    card = cards["data"]["cards"]["edges"][0]["node"]["id"]
    preview = await call(client, "delete_card", card_id=card)
    assert preview["requires_confirmation"] is True, preview
    token = preview["confirmation_token"]
    done = await call(client, "delete_card", card_id=card, confirm=True, confirmation_token=token)
    assert done["success"] is True, done
    gone = await call(client, "get_card", card_id=card)
    assert gone["success"] is False and gone["error"]["code"], gone
    unknown = await client.call_tool("no_such_tool", {})
    assert unknown.is_error, unknown


def read(url, data=None):
    with urllib.request.urlopen(url, data=data and json.dumps(data).encode(), timeout=30) as answer:
        return json.load(answer)


def bearer_of(person):
    target = urlsplit(TARGET)
    metadata = read(f"{target.scheme}://{target.netloc}/.well-known/oauth-protected-resource/mcp")
    issuer = urlsplit(metadata["authorization_servers"][0])
    return read(f"{issuer.scheme}://{issuer.netloc}/_sandbox/oidc/tokens", {"person": person})["access_token"]


async def people(era):
    """Two people at once: each sees what they may, and the same person after the other has asked."""
    try:
        async with connected(era, "none"):
            raise SystemExit("a made-up bearer was let in")
    except Exception:  # The SDK's own group of errors.
        pass
    async with (
        connected(era, bearer_of("ana.souza@aurora.example")) as ana,
        connected(era, bearer_of("bruno.lima@aurora.example")) as bruno,
    ):
        for _ in range(3):
            one, two = map(pipes, await asyncio.gather(*(call(client, "search_pipes") for client in (ana, bruno))))
            assert two and two < one, (one, two)
            hidden = min(one - two)
            shown, refused = await asyncio.gather(*(call(client, "get_pipe", pipe_id=hidden) for client in (ana, bruno)))
            assert "error" not in shown, shown
            assert refused["success"] is False, refused
        await story(ana)


async def main():
    for era in ERAS:
        if MODE == "hosted":
            await people(era)
        else:
            async with connected(era) as client:
                await story(client)
        print(f"Python, {'with' if era == 'legacy' else 'without'} handshake: ok")


asyncio.run(main())
