#!/usr/bin/env python3
"""golden.py BASE_URL DIR   Records what a real Ray dashboard answers: DIR/INDEX.json lists url, status, content type and file.

Asks for everything the dashboard's pages and Ray's clients ask for, for every job, node, actor and kind of task there is, and for what
they should not ask: unknown IDs, columns and files. Equal answers share a file.
"""

import hashlib
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

ONCE = """
/api/version /api/ray/version /timezone /usage_stats_enabled /cluster_id /api/authentication_mode /api/profiling_enabled
/api/grafana_health /api/prometheus_health /api/prometheus/sd /api/gcs_healthz /api/healthz /api/component_activities
/api/v0/cluster_metadata /api/v0/runtime_env_redaction /api/v0/platform_events /api/cluster_status /api/cluster_status?format=1
/nodes?view=summary /nodes?view=hostNameList /nodes?view=details /nodes/ffff
/events /api/v0/cluster_events /api/v0/cluster_events?detail=1
/api/jobs/ /api/jobs/nope /api/v0/jobs /api/v0/jobs?detail=1
/logical/actors /logical/actors/ffff /api/serve/applications/ /api/train/v2/runs/v1
/api/v0/actors /api/v0/actors?detail=1 /api/v0/actors?detail=1&limit=2 /api/v0/actors/summarize
/api/v0/nodes /api/v0/nodes?detail=1 /api/v0/workers /api/v0/workers?detail=1 /api/v0/workers?detail=1&limit=3
/api/v0/workers?detail=1&limit=10000
/api/v0/placement_groups /api/v0/placement_groups?detail=1 /api/v0/placement_groups?detail=1&limit=10000
/api/v0/objects /api/v0/objects?detail=1 /api/v0/objects/summarize /api/v0/runtime_envs /api/v0/runtime_envs?detail=1
/api/v0/tasks /api/v0/tasks?detail=1&limit=10000 /api/v0/tasks?limit=3 /api/v0/tasks?limit=0 /api/v0/tasks?limit=-1
/api/v0/tasks?limit=abc /api/v0/tasks?limit=20000 /api/v0/tasks?exclude_driver=false /api/v0/tasks?timeout=5&detail=true
/api/v0/tasks/summarize /api/v0/tasks/summarize?summary_by=lineage /api/v0/tasks/summarize?summary_by=func_name
/api/v0/tasks/timeline /api/v0/tasks/timeline?download=1
/api/v0/logs?glob=* /api/v0/logs?node_id=ffff&glob=* /api/v0/logs/file?filename=raylet.out
""".split()

# Filters of a list: (entity, [(column, predicate, value)…], more parameters).
FILTERS = [
    ("tasks", [("state", "=", "FAILED")], ""),
    ("tasks", [("state", "!=", "FINISHED")], "&detail=1"),
    ("tasks", [("STATE", "=", "finished")], ""),
    ("tasks", [("name", "=", "add")], "&limit=7"),
    ("tasks", [("name", "=", "add"), ("state", "=", "FINISHED")], "&limit=5"),
    ("tasks", [("func_or_class_name", "=", "Counter.inc")], "&detail=1"),
    ("tasks", [("type", "=", "ACTOR_CREATION_TASK")], ""),
    ("tasks", [("error_type", "=", "WORKER_DIED")], "&detail=1"),
    ("tasks", [("attempt_number", "=", "1")], ""),
    ("tasks", [("bogus", "=", "x")], ""),
    ("tasks", [("state", ">", "x")], ""),
    ("actors", [("state", "=", "DEAD")], "&detail=1"),
    ("actors", [("class_name", "=", "Counter")], ""),
    ("actors", [("name", "=", "detached")], "&detail=1"),
    ("nodes", [("state", "=", "DEAD")], "&detail=1"),
    ("nodes", [("is_head_node", "=", "True")], ""),
    ("workers", [("is_alive", "=", "False")], "&detail=1"),
    ("workers", [("worker_type", "=", "DRIVER")], "&detail=1"),
    ("placement_groups", [("state", "=", "CREATED")], "&detail=1"),
    ("jobs", [("status", "=", "FAILED")], "&detail=1"),
    ("objects", [("reference_type", "=", "LOCAL_REFERENCE")], ""),
]


class Recorder:
    def __init__(self, base, folder):
        self.base, self.folder, self.index, self.urls = base, folder, [], set()

    def fetch(self, url):
        """Status, content type and body of an answer."""
        try:
            with urllib.request.urlopen(self.base + url, timeout=60) as r:
                return r.status, r.headers.get("Content-Type"), r.read()
        except urllib.error.HTTPError as e:
            return e.code, e.headers.get("Content-Type"), e.read()

    def get(self, url):
        """Records one answer, once; returns it decoded where it is JSON."""
        status, content_type, body = self.fetch(url)
        if url not in self.urls:
            self.urls.add(url)
            name = re.sub(r"[^A-Za-z0-9._=-]+", "_", url.split("?")[0].strip("/"))[:60] + "-" + hashlib.sha256(body).hexdigest()[:12]
            with open(f"{self.folder}/{name}", "wb") as f:
                f.write(body)
            self.index.append({"url": url, "status": status, "content_type": content_type, "file": name, "bytes": len(body)})
        try:
            return json.loads(body)
        except ValueError:
            return None

    def rows(self, entity):
        return json.loads(self.fetch(f"/api/v0/{entity}?detail=1&limit=10000")[2])["data"]["result"]["result"]

    def record(self):
        for url in ONCE:
            self.get(url)
        for entity, conditions, more in FILTERS:
            self.get(f"/api/v0/{entity}?{filters(*conditions)}{more}")
        self.get("/api/v0/tasks?filter_keys=state&filter_values=FAILED")
        self.jobs()
        self.nodes()
        self.actors()
        self.tasks()
        for worker in self.rows("workers")[:4]:
            self.get(f"/api/v0/logs/file?node_id={worker['node_id']}&pid={worker['pid']}&suffix=out&lines=50")
        for group in self.rows("placement_groups")[:2]:
            self.get(f"/api/v0/placement_groups?detail=1&{filters(('placement_group_id', '=', group['placement_group_id']))}")
        with open(f"{self.folder}/INDEX.json", "w") as f:
            json.dump(self.index, f, indent=1)

    def jobs(self):
        for job in json.loads(self.fetch("/api/jobs/")[2]):
            for name in filter(None, (job["submission_id"], job["job_id"])):
                self.get(f"/api/jobs/{name}")
                self.get(f"/events?job_id={name}")
            if job["submission_id"]:
                self.get(f"/api/jobs/{job['submission_id']}/logs")
            if job["job_id"]:
                of_job = filters(("job_id", "=", job["job_id"]))
                self.get(f"/api/v0/tasks/summarize?{of_job}")
                self.get(f"/api/v0/tasks/summarize?{of_job}&summary_by=lineage")
                self.get(f"/api/v0/tasks?detail=1&limit=10000&{of_job}")
                self.get(f"/api/v0/tasks/timeline?job_id={job['job_id']}")
                self.get(f"/api/data/datasets/{job['job_id']}")
                self.get(f"/api/v0/actors?{of_job}&detail=1")

    def nodes(self):
        for node in self.rows("nodes"):
            of_node = f"node_id={node['node_id']}"
            self.get(f"/nodes/{node['node_id']}")
            for glob in ("*", "worker*out", "serve/*", "*.log"):
                self.get(f"/api/v0/logs?{of_node}&glob={glob}")
            self.get(f"/api/v0/logs?node_ip={node['node_ip']}&glob=gcs*")
            for name in ("raylet.out", "dashboard_agent.log", "runtime_env_agent.log"):
                self.get(f"/api/v0/logs/file?{of_node}&filename={name}&lines=20")
                self.get(f"/api/v0/logs/file?{of_node}&filename={name}&lines=20&filter_ansi_code=true")
            self.get(f"/api/v0/logs/file?{of_node}&filename=nope.log")
            self.get(f"/api/v0/logs/file?{of_node}&filename=../../etc/passwd")
            self.get(f"/api/v0/tasks?limit=10&{filters(('node_id', '=', node['node_id']))}")

    def actors(self):
        actors = list(json.loads(self.fetch("/logical/actors")[2])["data"]["actors"])
        for actor in actors:
            self.get(f"/logical/actors/{actor}")
            self.get(f"/api/v0/logs/file?actor_id={actor}&suffix=out&lines=50")
            self.get(f"/api/v0/tasks?detail=1&limit=10000&{filters(('actor_id', '=', actor))}")
        for some in (actors[:1], actors[:3]):
            self.get(f"/logical/actors?ids={','.join(some)}")

    def tasks(self):
        """One task of each name and state."""
        seen = set()
        for task in self.rows("tasks"):
            kind = (task["name"], task["state"])
            if kind in seen:
                continue
            seen.add(kind)
            self.get(f"/api/v0/tasks?detail=1&limit=1&{filters(('task_id', '=', task['task_id']))}")
            for suffix in ("out", "err"):
                attempt = f"task_id={task['task_id']}&suffix={suffix}&attempt_number={task['attempt_number']}"
                self.get(f"/api/v0/logs/file?{attempt}&lines=50")
            if len(seen) <= 4:
                self.get(f"/api/v0/tasks/timeline?task_id={task['task_id']}")


def filters(*conditions):
    """The query of a State API filter."""
    q = urllib.parse.quote
    return "&".join(f"filter_keys={q(k)}&filter_predicates={q(p)}&filter_values={q(v)}" for k, p, v in conditions)


def main():
    base, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    recorder = Recorder(base.rstrip("/"), folder)
    recorder.record()
    print(f"{len(recorder.index)} answers in {folder}")


if __name__ == "__main__":
    main()
