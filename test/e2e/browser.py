"""The Ray Dashboard's own pages of a stored session, in Chromium."""

import json
import pathlib
import re
import subprocess
import urllib.parse

import checks

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "browser"
# What fails on a live dashboard too: no Kubernetes events.
MAY_FAIL = ("HEAD /api/v0/platform_events",)


def pages(live, lab):
    """Every page of the dashboard, a detail page of each kind, and a text that must be on it."""
    jobs = {j["submission_id"]: j for j in live["jobs"] if j["submission_id"]}
    job = jobs["data-job"]
    actor = next(a for a in live["actors"] if a["name"] == "restarted")
    dead = next(a for a in live["actors"] if a["name"] == "restarts_exhausted")
    task = next(t for t in live["tasks"] if t["name"] == "talk_renamed")
    driver = task["job_id"]
    tasks = len([t for t in live["tasks"] if t["job_id"] == driver and t["type"] != "DRIVER_TASK"])
    front = live["serve"]["applications"]["hello"]["deployments"]["Front"]["replicas"][0]["replica_id"]
    proxy = next(iter(live["serve"]["proxies"]))
    spec = [
        page("overview", "/#/overview", "Recent jobs"),
        page("jobs", "/#/jobs", "stopped-job"),
        page("job", f"/#/jobs/{job['submission_id']}", "SUCCEEDED"),
        page("job of a driver", f"/#/jobs/{driver}", f"Total: {tasks}"),
        page("timeline of a job", f"/#/jobs/{driver}", "Task Timeline", click=["DOWNLOAD TRACE FILE"], downloads=1),
        page("tasks of a job, second page", f"/#/jobs/{driver}", "FINISHED", click=["Task Table", "2"]),
        page("job by its link", "/#/jobs", "Task Timeline", click=[jobs["running-job"]["job_id"]]),
        page("task", f"/#/jobs/{driver}/tasks/{task['task_id']}", "warning 2"),
        page("task's standard output", f"/#/jobs/{driver}/tasks/{task['task_id']}", "line 2", click=["STDOUT"]),
        page("serve", "/#/serve", "hello"),
        page("serve application", "/#/serve/applications/hello", "Front"),
        page("serve application that failed", "/#/serve/applications/unready", "DEPLOY_FAILED"),
        page("serve deployment", "/#/serve/applications/hello/Front", front),
        page("serve replica", f"/#/serve/applications/hello/Front/{front}", f"SERVE_REPLICA::hello#Front#{front}"),
        page("serve system", "/#/serve/system", "HTTPProxyActor"),
        page("serve controller", "/#/serve/system/controller", "Controller starting"),
        page("serve proxy", f"/#/serve/system/proxies/{proxy}", "SERVE_PROXY_ACTOR"),
        page("cluster", "/#/cluster", lab.pods["w1"].ip),
        # The agent of a head does not always bear its title.
        page("cluster, the nodes' workers", "/#/cluster", "ray::DashboardAgent", press=[f"tbody tr:nth-child({n}) button" for n in (3, 2, 1)]),
        page("cluster, as cards", "/#/cluster", lab.pods["w1"].ip, click=["CARD"]),
        page("node by its link", "/#/cluster", "RAYLET", click=[live["nodes"][0]["node_id"]]),
        page("actors", "/#/actors", f"x {len(live['actors'])}"),
        page("actors, second page", "/#/actors", "Actor ID", click=["2"]),
        page("actor", f"/#/actors/{actor['actor_id']}", "Counter(n="),
        page("dead actor", f"/#/actors/{dead['actor_id']}", "DEAD"),
        page("metrics", "/#/metrics", "View tab in Grafana"),
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
    seen = run("visit.js", {"base": base, "pages": pages, "out": str(out), **({"enter": enter} if enter else {})})
    if isinstance(seen, str):
        report.check(f"{how}: browser", seen, "")
        return
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


def bar(report, live, base, metrics):
    """The bar moves the page of a job through the session: what is shown is what is answered for each moment."""
    driver = next(t for t in live["tasks"] if t["name"] == "talk_renamed")["job_id"]
    # Halfway between the job's first task and its last.
    began = [t["creation_time_ms"] for t in live["tasks"] if t["job_id"] == driver and t["creation_time_ms"]]
    life = checks.get_json(f"{base}/session_activity")
    fraction = ((min(began) + max(began)) / 2 - life["from"]) / (life["to"] - life["from"])
    counts = f"api/v0/tasks?limit=1&filter_keys=job_id&filter_predicates=%3D&filter_values={driver}"
    job = {"base": base, "path": f"/#/jobs/{driver}", "shows": r"Total: (\d+)", "counts": counts, "fraction": fraction}
    seen = run("bar.js", job)
    if isinstance(seen, str):
        report.check("bar", seen, "")
        return
    steps = seen["steps"]
    report.none("bar: page errors", seen["errors"])
    report.check("bar: histogram of running and failed tasks", all(seen["bars"].values()))
    report.check("bar: lines of what was used", sorted(seen["lines"]), ["CPU", "GPU", "memory"] if metrics else ["CPU", "memory"])
    for name, step in steps.items():
        if name != "all sessions":
            report.check(f"bar: tasks shown at {name}", step["shown"], step["counted"])
    dragged = moment(steps["dragged"]["url"])
    report.check("bar: tasks at a moment are fewer", 0 < steps["dragged"]["counted"] < steps["the end"]["counted"])
    report.check("bar: the slider is where it was dragged to", abs((dragged - life["from"]) / (life["to"] - life["from"]) - fraction) < 0.02)
    report.check("bar: a step goes on", moment(steps["a step on"]["url"]) > dragged)
    report.check("bar: a step goes back", moment(steps["a step back"]["url"]) < moment(steps["a step on"]["url"]))
    report.check("bar: play goes on", moment(steps["played"]["url"]) > moment(steps["a step back"]["url"]))
    session = urllib.parse.urlsplit(base)._replace(path="").geturl()
    report.check("bar: the link leads to the session and moment", steps["the shared link"]["url"], seen["shared"])
    report.check("bar: the shared moment", moment(seen["shared"]), dragged)
    report.check("bar: back at the end", moment(steps["back at the end"]["url"]), None)
    report.check("bar: the way back to the list", steps["all sessions"]["url"], f"{session}/homepage")


def moment(url):
    """The moment that an address names, in ms; None for the end."""
    found = re.search(r"/at/(\d+)/", url)
    return int(found[1]) if found else None


def run(script, job):
    """The report of a script of the browser folder, or what it wrote where it failed."""
    if not (FOLDER / "node_modules").exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=FOLDER, check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["node", FOLDER / script], input=json.dumps(job), capture_output=True, text=True, timeout=900)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr[-600:]
