"""The Ray Dashboard's own pages of a stored session, in Chromium."""

import json
import pathlib
import subprocess
import urllib.parse

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "browser"
# What fails on a live dashboard too: no Kubernetes events, no Grafana, no Prometheus.
MAY_FAIL = ("HEAD /api/v0/platform_events", "GET /api/grafana_health", "GET /api/prometheus_health")


def pages(live, lab):
    """Every page of the dashboard, a detail page of each kind, and a text that must be on it."""
    jobs = {j["submission_id"]: j for j in live["jobs"] if j["submission_id"]}
    job = jobs["data-job"]
    actor = next(a for a in live["actors"] if a["name"] == "restarted")
    dead = next(a for a in live["actors"] if a["name"] == "restarts_exhausted")
    task = next(t for t in live["tasks"] if t["name"] == "talk_renamed")
    driver = task["job_id"]
    tasks = len([t for t in live["tasks"] if t["job_id"] == driver and t["type"] != "DRIVER_TASK"])
    spec = [
        page("overview", "/#/overview", "Recent jobs"),
        page("jobs", "/#/jobs", "stopped-job"),
        page("job", f"/#/jobs/{job['submission_id']}", "SUCCEEDED"),
        page("job of a driver", f"/#/jobs/{driver}", f"Total: {tasks}"),
        page("timeline of a job", f"/#/jobs/{driver}", "Task Timeline", click=["DOWNLOAD TRACE FILE"], downloads=1),
        page("tasks of a job, second page", f"/#/jobs/{driver}", "FINISHED", click=["Task Table", "2"]),
        page("task", f"/#/jobs/{driver}/tasks/{task['task_id']}", "warning 2"),
        page("task's standard output", f"/#/jobs/{driver}/tasks/{task['task_id']}", "line 2", click=["STDOUT"]),
        page("serve", "/#/serve", "hello"),
        page("serve application", "/#/serve/applications/hello", "Front"),
        page("cluster", "/#/cluster", lab.pods["w1"].ip),
        page("actors", "/#/actors", f"x {len(live['actors'])}"),
        page("actors, second page", "/#/actors", "Actor ID", click=["2"]),
        page("actor", f"/#/actors/{actor['actor_id']}", "Counter(n="),
        page("dead actor", f"/#/actors/{dead['actor_id']}", "DEAD"),
        page("metrics", "/#/metrics", "Prometheus"),
        page("logs", "/#/logs", "Node ID"),
    ]
    for node in live["nodes"]:
        quoted = urllib.parse.quote(node["node_id"])
        spec.append(page(f"node {node['node_ip']}", f"/#/cluster/nodes/{quoted}", node["node_ip"]))
        spec.append(page(f"logs of {node['node_ip']}", f"/#/logs/?nodeId={quoted}", "raylet.out"))
        spec.append(page(f"log of {node['node_ip']}", f"/#/logs/?nodeId={quoted}", "Setting node ID", click=["raylet.out"]))
    return spec


def page(name, path, wait, **more):
    """A page for visit.js; `downloads` is how many files its clicks must bring."""
    return {"name": name, "path": path, "wait": wait, **more}


def crawl(report, how, base, pages, out, enter=None):
    """Opens the pages; no page may have an error, no request may fail that does not fail live."""
    if not (FOLDER / "node_modules").exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=FOLDER, check=True, stdout=subprocess.DEVNULL)
    job = {"base": base, "pages": pages, "out": str(out), **({"enter": enter} if enter else {})}
    done = subprocess.run(["node", FOLDER / "visit.js"], input=json.dumps(job), capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        report.check(f"{how}: browser", done.stderr[-600:], "")
        return
    seen = json.loads(done.stdout)
    (out / "report.json").write_text(json.dumps(seen, indent=1))
    report.none(f"{how}: page errors on {len(pages)} pages", seen["errors"])
    failed = []
    for r in seen["requests"]:
        path = r["url"].removeprefix(base)
        if (r["status"] >= 400 or r["status"] == 0) and f"{r['method']} {path.split('?')[0]}" not in MAY_FAIL:
            failed.append(f"{r['status']} {r['method']} {path} on {r['page']}")
    report.none(f"{how}: failed requests of {len(seen['requests'])}", failed)
    report.none(f"{how}: pages without what they must show", [f"{p['name']}: {p['missing']}" for p in seen["pages"] if p["missing"]])
    wanted = {p["name"]: p.get("downloads", 0) for p in pages}
    got = {p["name"]: len([d for d in p["downloads"] if d["bytes"] > 2]) for p in seen["pages"]}
    report.check(f"{how}: downloads", got, wanted)
