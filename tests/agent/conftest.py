"""A session with the server: the package's own client over standard input and output."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Session:
    """A client of a server process, for tests that are not asynchronous."""

    def __init__(self, folder, *options):
        from mcp import Client
        from mcp.client.stdio import StdioServerParameters

        code = "from septran.cli import main; main()"
        arguments = ["-c", code, "mcp", "--folder", str(folder), *options]
        paths = ":".join(path for path in sys.path if path)
        server = StdioServerParameters(
            command=sys.executable, args=arguments, env={"PYTHONPATH": paths}
        )
        self.loop = asyncio.new_event_loop()
        self.done, ready = asyncio.Event(), threading.Event()

        async def live():
            async with Client(server) as self.client:
                ready.set()
                await self.done.wait()

        self.thread = threading.Thread(target=lambda: self.loop.run_until_complete(live()))
        self.thread.start()
        assert ready.wait(60)

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(300)

    def tools(self):
        return self.run(self.client.list_tools()).tools

    def result(self, tool, **arguments):
        return self.run(self.client.call_tool(tool, arguments))

    def call(self, tool, **arguments):
        """The answer of a tool that has one."""
        found = self.result(tool, **arguments)
        assert not found.is_error, found.content[0].text
        return found.structured_content

    def failure(self, tool, **arguments):
        """What a client is told of a call that has no answer."""
        found = self.result(tool, **arguments)
        assert found.is_error
        return found.content[0].text

    def close(self):
        self.loop.call_soon_threadsafe(self.done.set)
        self.thread.join(60)
        self.loop.close()


@pytest.fixture(scope="session")
def served():
    """Makes sessions, each of which ends with the tests."""
    pytest.importorskip("mcp", reason="the server needs `mcp`: pip install 'septran[agent]'")
    open_ones = []

    def make(folder, *options):
        open_ones.append(Session(folder, *options))
        return open_ones[-1]

    yield make
    for session in open_ones:
        session.close()
