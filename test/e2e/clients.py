#!/usr/bin/env python3
"""clients.py ADDRESS   Asks a dashboard by Ray's Python clients, ray.util.state and JobSubmissionClient, and prints what they gave.

Runs in the Ray installation whose clients it tries. Prints a JSON object {question: answer}; an exception is an answer too. What is
asked for is chosen by names that the workloads gave, so that the same is asked of the live dashboard and of the stored session.
"""

import asyncio
import dataclasses
import json
import sys

import requests
from ray.job_submission import JobSubmissionClient
from ray.util import state


def plain(value):
    """A client's answer as JSON has it."""
    if dataclasses.is_dataclass(value):
        return plain(dataclasses.asdict(value))
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if hasattr(value, "dict"):
        return plain(value.dict())
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(v) for v in value]
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return str(value)


class Clients:
    def __init__(self, address):
        self.address, self.answers = address, {}

    def ask(self, question, call, *arguments, **options):
        try:
            answer = plain(call(*arguments, **options))
        except Exception as e:
            answer = type(e).__name__
        self.answers[question] = answer
        return answer

    def states(self):
        on = {"address": self.address, "limit": 1000}
        s = self.ask
        s("list_tasks", state.list_tasks, filters=[("name", "!=", "add")], **on)
        s("list_tasks failed, detail", state.list_tasks, filters=[("state", "=", "FAILED")], detail=True, **on)
        s("list_tasks bogus", state.list_tasks, filters=[("bogus", "=", "x")], **on)
        s("list_actors", state.list_actors, **on)
        s("list_actors dead, detail", state.list_actors, filters=[("state", "=", "DEAD")], detail=True, **on)
        s("list_nodes", state.list_nodes, detail=True, **on)
        s("list_jobs", state.list_jobs, detail=True, **on)
        s("list_workers", state.list_workers, address=self.address)
        s("list_placement_groups", state.list_placement_groups, detail=True, **on)
        s("list_runtime_envs", state.list_runtime_envs, **on)
        s("summarize_tasks", state.summarize_tasks, address=self.address)
        s("summarize_actors", state.summarize_actors, address=self.address)
        self.single()

    def single(self):
        """One of each kind by its ID, and logs."""
        address = self.address
        task = first(state.list_tasks(address=address, filters=[("name", "=", "talk_renamed")]), "task_id")
        tried = first(state.list_tasks(address=address, filters=[("name", "=", "flaky")]), "task_id")
        actor = first(state.list_actors(address=address, filters=[("name", "=", "restarted")]), "actor_id")
        group = first(state.list_placement_groups(address=address, filters=[("state", "=", "CREATED")], detail=True), "placement_group_id")
        head = first(state.list_nodes(address=address, filters=[("is_head_node", "=", "True")]), "node_id")
        worker = first(state.list_workers(address=address, filters=[("worker_type", "=", "DRIVER")]), "worker_id")
        self.ask("get_task", state.get_task, task, address=address)
        self.ask("get_task of several attempts", state.get_task, tried, address=address)
        self.ask("get_actor", state.get_actor, actor, address=address)
        self.ask("get_actor unknown", state.get_actor, "f" * 32, address=address)
        self.ask("get_placement_group", state.get_placement_group, group, address=address)
        self.ask("get_node", state.get_node, head, address=address)
        self.ask("get_worker", state.get_worker, worker, address=address)
        for question, options in {
            "log of a task": {"task_id": task}, "errors of a task": {"task_id": task, "suffix": "err"},
            "log of an actor": {"actor_id": actor, "lines": 5}, "head's GCS logs": {"node_id": head, "glob": "gcs*"},
        }.items():  # fmt: skip
            self.ask(question, self.log, options)

    def log(self, options):
        """What state.get_log and list_logs ask; they themselves look the dashboard up in the GCS, and so need a living cluster."""
        kind = "logs" if "glob" in options else "logs/file"
        answer = requests.get(f"{self.address}/api/v0/{kind}", params=options, timeout=60)
        return answer.text if answer.ok else answer.ok

    def jobs(self):
        client = JobSubmissionClient(self.address)
        self.ask("list_jobs of submissions", client.list_jobs)
        self.ask("get_version", client.get_version)
        for job in ("data-job", "fail-job", "bad-env-job", "stopped-job", "running-job", "nope"):
            self.ask(f"get_job_info {job}", client.get_job_info, job)
            self.ask(f"get_job_status {job}", client.get_job_status, job)
        self.ask("get_job_logs", client.get_job_logs, "fail-job")

        async def tail():
            return "".join([text async for text in client.tail_job_logs("fail-job")])

        self.ask("tail_job_logs", lambda: asyncio.run(tail()))


def first(rows, key):
    """The ID that comes first in order: another run chooses the same."""
    return min((r[key] if isinstance(r, dict) else getattr(r, key)) for r in rows)


def main():
    clients = Clients(sys.argv[1])
    clients.states()
    clients.jobs()
    json.dump(clients.answers, sys.stdout, sort_keys=True)


if __name__ == "__main__":
    main()
