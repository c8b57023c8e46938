"""A real client of the Model Context Protocol, Python's, runs each of the server's tools over a stored session.

    assistant.py SERVER SESSION NODE BINARY

Prints, as JSON, what each tool answered over HTTP and over stdin: {tool: [text, …]}; an error is an exception. Runs in an environment that has the package mcp.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def ask(read, write, session, node):
    arguments = {
        "list_sessions": {}, "fleet": {}, "why": {}, "list_entities": {"kind": "tasks", "limit": 2}, "summarize_tasks": {}, "list_logs": {"node_id": node},
        "compare": {"job": "fail-job", "with_job": "data-job"},
        "search_logs": {"pattern": "ray", "limit": 3}, "read_log": {"node_id": node, "file": "raylet.out", "lines": 3}, "query_metrics": {"query": "count(up)"},
    }  # fmt: skip
    answers = {}
    async with ClientSession(read, write) as client:
        await client.initialize()
        for tool in (await client.list_tools()).tools:
            given = arguments[tool.name] if tool.name in ("list_sessions", "fleet") else {"session": session, **arguments[tool.name]}
            result = await client.call_tool(tool.name, given)
            if result.is_error:
                raise RuntimeError(f"{tool.name}: {result.content}")
            answers[tool.name] = result.content[0].text
    return answers


async def main(server, session, node, binary):
    async with streamable_http_client(server + "/mcp") as (read, write, *_):
        by_http = await ask(read, write, session, node)
    async with stdio_client(StdioServerParameters(command=binary, args=["mcp", "--server", server])) as (read, write):
        by_stdin = await ask(read, write, session, node)
    print(json.dumps({tool: [by_http[tool], by_stdin[tool]] for tool in by_http}))


asyncio.run(main(*sys.argv[1:]))
