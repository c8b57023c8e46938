package findings_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestEndedByKubeRay: the title of a node that died says what KubeRay or Kueue did to its pod, its group of workers or
// its cluster then.
func TestEndedByKubeRay(t *testing.T) {
	const deleted = "; its pod was deleted by KubeRay: "
	const cluster = "; its pod was ended with its cluster: "
	const oom = "Deleted worker Pod ml/lab-gpu-worker-b; Pod status: Failed; Pod restart policy: Never; Ray container terminated status: &ContainerStateTerminated{ExitCode:137,Signal:0,Reason:OOMKilled,Message:,StartedAt:2026-11-22 10:00:00 +0000 UTC,ContainerID:containerd://5c,}"
	for name, c := range map[string]struct{ kind, reason, message, at, want string }{
		"out of memory":   {"RayCluster", "DeletedWorkerPod", oom, "10:15:42", deleted + "Deleted worker Pod ml/lab-gpu-worker-b; Pod status: Failed; Pod restart policy: Never; Ray container terminated status: OOMKilled, exit code 137"},
		"fewer replicas":  {"RayCluster", "DeletedWorkerPod", "Deleted Pod ml/lab-gpu-worker-b", "10:15:37", deleted + "Deleted Pod ml/lab-gpu-worker-b"},
		"another pod":     {"RayCluster", "DeletedWorkerPod", "Deleted Pod ml/lab-gpu-worker-bb", "10:15:37", ""},
		"its group":       {"RayCluster", "DeletedWorkerPod", "Deleted all pods for suspended worker group gpu in RayCluster ml/lab", "10:15:37", deleted + "Deleted all pods for suspended worker group gpu in RayCluster ml/lab"},
		"another group":   {"RayCluster", "DeletedWorkerPod", "Deleted all pods for suspended worker group cpu in RayCluster ml/lab", "10:15:37", ""},
		"preempted":       {"RayJob", "Stopped", "Preempted to accommodate a workload", "10:15:30", cluster + "Preempted to accommodate a workload"},
		"long before":     {"RayJob", "Stopped", "Preempted to accommodate a workload", "10:12:30", ""},
		"afterwards":      {"RayJob", "DeletedRayCluster", "Deleted cluster ml/lab", "10:15:45", ""},
		"another cluster": {"RayJob", "DeletedRayCluster", "Deleted cluster ml/lab-2", "10:15:37", ""},
		"suspended":       {"RayCluster", "DeletedPod", "Deleted Pods for RayCluster ml/lab due to suspension", "10:15:37", cluster + "Deleted Pods for RayCluster ml/lab due to suspension"},
		"its queue": {"Pod", "Stopped", "Preempted to accommodate a workload", "10:15:37",
			"; its pod was ended: Preempted to accommodate a workload"},
		"no reason": {"RayCluster", "DeletedWorkerPod", strings.Replace(oom, "OOMKilled", "", 1), "10:15:42",
			deleted + "Deleted worker Pod ml/lab-gpu-worker-b; Pod status: Failed; Pod restart policy: Never; Ray container terminated status: exit code 137"},
		"a descheduler": {"Pod", "LowNodeUtilization", "pod eviction from gpu-7 node by sigs.k8s.io/descheduler",
			"10:15:37", "; its pod was evicted: pod eviction from gpu-7 node by sigs.k8s.io/descheduler"},
		"not evicted": {"Pod", "EvictionFailed",
			"pod eviction from gpu-7 node by sigs.k8s.io/descheduler failed: total eviction limit exceeded (2)", "10:15:37", ""},
		"other resources": {"Pod", "EvictedByVPA", "Pod was evicted by VPA Updater to apply resource recommendation.",
			"10:15:37", "; its pod was evicted by VPA Updater to apply resource recommendation."},
		"its deadline": {"Pod", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline", "10:15:37", "; its pod was ended: Pod was active on the node longer than the specified deadline"},
	} {
		events := nodeLostAt("10:15:40")
		for i := range events {
			events[i] = strings.ReplaceAll(events[i], "lab-worker-b", "lab-gpu-worker-b")
		}
		object := map[string]string{"Pod": "lab-gpu-worker-b"}[c.kind]
		events = append(events, platformEvent(c.kind, object, c.reason, c.message, c.at))
		r := report(t, load(t, rareEvents(t, events), rayevents.Session, nil))
		i := slices.IndexFunc(r.Findings, func(f *findings.Finding) bool { return f.Kind == findings.NodeDied })
		must.True(t, i >= 0, "%s: %+v", name, r.Findings)
		says.Equal(t, r.Findings[i].Title, "Node 10.0.0.2 died unexpectedly: health check failed due to missing too many heartbeats"+c.want, "%s", name)
	}
}

// TestKeptOut: of what no node could take it is told which pod was not made, not scheduled or not admitted.
func TestKeptOut(t *testing.T) {
	waits := failedTask(1, "embed", "", "")
	waits[0] = strings.Replace(waits[0], `"CPU": 1.0`, `"GPU": 1.0`, 1)
	waits[1] = strings.NewReplacer(`"FAILED"`, `"PENDING_NODE_ASSIGNMENT"`, "10:15:55Z", "10:10:00Z", `"rayErrorInfo"`, `"x"`).Replace(waits[1])
	event := func(severity, kind, name, reason, message, at string) string {
		return strings.Replace(platformEvent(kind, name, reason, message, at), `"INFO"`, `"`+severity+`"`, 1)
	}
	warns := func(reason, message string) []string {
		return []string{event("WARNING", "Pod", "w-3", reason, message, "10:12:20")}
	}
	const quota = "Failed to create worker Pod for the cluster ml/lab, pods w- is forbidden: exceeded quota: gpus"
	refused := event("WARNING", "RayCluster", "lab", "FailedToCreateWorkerPod", quota, "10:12:20")
	pull := "Failed to pull image x: failed to resolve reference x: failed to authorize: failed to fetch oauth token" + strings.Repeat(", again", 20) + ": unexpected status from GET request to https://r.example/token: 401 Unauthorized"
	for name, c := range map[string]struct {
		events []string
		want   string
	}{
		"a quota":                  {[]string{refused}, "; RayCluster lab reports FailedToCreateWorkerPod: " + quota},
		"made later":               {[]string{refused, event("INFO", "RayCluster", "lab", "CreatedWorkerPod", "Created worker Pod ml/w-3", "10:12:40")}, ""},
		"not deleted":              {[]string{event("WARNING", "RayCluster", "lab", "FailedToDeleteWorkerPod", "Failed deleting pod ml/w-1", "10:12:20")}, ""},
		"scheduled, then no image": {slices.Concat(warns("FailedScheduling", "0/4 nodes are available"), []string{event("WARNING", "Pod", "w-3", "Failed", "Failed to pull image x: not found", "10:13:20")}), "; Pod w-3 could not be started: Failed to pull image x: not found"},
		"another has no image":     {slices.Concat(warns("FailedScheduling", "0/4 nodes are available"), []string{event("WARNING", "Pod", "w-9", "Failed", "Failed to pull image x: not found", "10:13:20")}), "; Pod w-3 could not be scheduled: 0/4 nodes are available"},
		"neither is scheduled":     {slices.Concat(warns("FailedScheduling", "0/4 nodes are available"), []string{event("WARNING", "Pod", "w-9", "FailedScheduling", "no such queue", "10:13:20")}), "; Pod w-3 could not be scheduled: 0/4 nodes are available"},
		"only not scheduled":       {warns("FailedScheduling", "0/4 nodes are available"), "; Pod w-3 could not be scheduled: 0/4 nodes are available"},
		"a provisioner": {slices.Concat(warns("FailedScheduling", "0/4 nodes are available"),
			[]string{event("WARNING", "Pod", "w-3", "FailedScheduling", "no instance type satisfied resources",
				"10:12:21")}), "; Pod w-3 could not be scheduled: no instance type satisfied resources"},
		"no devices":        {warns("OutOfnvidia.com/gpu", "no gpu left"), "; Pod w-3 could not be started: no gpu left"},
		"started later":     {append(warns("OutOfnvidia.com/gpu", "no gpu left"), event("INFO", "Pod", "w-3", "Started", "Started container", "10:13:20")), ""},
		"a node's own pod":  {[]string{event("WARNING", "Pod", "lab-worker-b", "FailedKillPod", "no answer", "10:12:20")}, ""},
		"a probe":           {warns("Unhealthy", "Readiness probe failed"), ""},
		"a full disk":       {warns("Evicted", "The node had condition: [DiskPressure]."), "; Pod w-3 was evicted: The node had condition: [DiskPressure]."},
		"evicted as it ran": {warns("Evicted", "The node was low on resource: memory."), ""},
		"a queue":           {[]string{event("INFO", "Pod", "w-3", "PodUnschedulable", "the queue quota has been exceed", "10:12:20")}, "; Pod w-3 could not be scheduled: the queue quota has been exceed"},
		"many layers":       {warns("Failed", pull), "; Pod w-3 could not be started: Failed to pull image x: … unexpected status from GET request to https://r.example/token: 401 Unauthorized"},
	} {
		dir := rareEvents(t, slices.Concat(submission(open), []string{driverOf(1, open)}, aliveNodes(), waits, c.events))
		f := only(report(t, load(t, dir, rayevents.Session, nil)), "^embed could never be scheduled")
		must.True(t, f != nil, "%s", name)
		says.Equal(t, f.Title, "embed could never be scheduled: it asks for 1 GPU, and no node has any GPU"+c.want, "%s", name)
	}
	held := func(name, node string) []string {
		t := runningTask(name)
		t[1] = strings.NewReplacer("10:15:55Z", "10:06:30Z", `"nodeId": ""`, `"nodeId": "`+node+`"`).Replace(t[1])
		return t
	}
	const head, worker = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==", "AgICAgICAgICAgICAgICAgICAgICAgICAgICAg=="
	waits[0] = strings.Replace(waits[0], `"GPU": 1.0`, `"CPU": 1.0`, 1)
	dir := submissionWithLog(t, 1, trace("ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready."),
		slices.Concat([]string{driverOf(1, "raysubmit_bad"), refused},
			aliveNodes(), waits, held("a", head), held("b", head), held("c", worker), held("d", worker))...)
	_, chain := badJob(t, dir)
	says.Equal(t, chain[len(chain)-1].Title,
		"embed waited for 1 CPU: a, b, c and 1 more held 4 of 4 CPU; RayCluster lab reports FailedToCreateWorkerPod: "+quota)
}

// TestUpdateRefused: of an operator's message with a traceback, as a head that refused an update gave it, the title has
// the exception.
func TestUpdateRefused(t *testing.T) {
	const head = "Failed to update serve applications to the RayCluster ml/lab: fail to create / update Serve applications. If you observe this error consistently, please check the guide in https://docs.example.com for more details. err: UpdateDeployments fail: 400 Bad Request "
	warning := strings.Replace(platformEvent("RayService", "chat", "FailedToUpdateServeApplications",
		head+`Traceback (most recent call last):\n  File \"/v/a.py\", line 3, in put\npydantic.ValidationError: 1 validation error for ServeDeploySchema`, "10:12:20"), `"INFO"`, `"WARNING"`, 1)
	r := report(t, load(t, rareEvents(t, append(aliveNodes(), warning)), rayevents.Session, nil))
	says.Equal(t, r.Findings[0].Title,
		"RayService chat reports FailedToUpdateServeApplications: pydantic.ValidationError: 1 validation error for ServeDeploySchema")
}

// TestSuspended: a job that had not ended when KubeRay deleted its cluster's pods, or its RayService's cluster, tells
// that.
func TestSuspended(t *testing.T) {
	for message, reason := range map[string]string{"Deleted all Pods for RayCluster ml/lab due to spec change with Recreate upgradeStrategy": "DeletedPod",
		"Deleted the RayCluster ml/lab during suspend": "DeletedRayCluster"} {
		dir := rareEvents(t, slices.Concat(runningTask("crunch"), aliveNodes(), []string{driverOf(1, open), platformEvent("RayService", "lab", reason, message, "10:20:28")}))
		storeLog(t, dir, "job-driver-raysubmit_open.log", running)
		put(t, dir, layout.MetadataKey(layout.DefaultRoot, rayevents.Session, layout.End), `{"end": "2026-11-22T10:20:31Z"}`)
		got := report(t, load(t, dir, rayevents.Session, nil)).Findings[0].Title
		says.True(t, strings.HasSuffix(got, "; what ended the cluster: RayService lab: "+reason+": "+message), "%s",
			got)
	}
}

// TestHeadEnded: a job that had not ended tells what ended the pod of the head, and one whose driver was told to end what
// ended its cluster then.
func TestHeadEnded(t *testing.T) {
	const low = "The node was low on resource: ephemeral-storage."
	for at, want := range map[string]string{"10:20:27": "; what ended the cluster: Pod lab-head: Evicted: " + low,
		"10:12:27": ""} {
		dir := rareEvents(t, slices.Concat(runningTask("crunch"), aliveNodes(), []string{driverOf(1, open),
			platformEvent("Pod", "lab-head", "Evicted", low, at)}))
		storeLog(t, dir, "job-driver-raysubmit_open.log", running)
		storeLog(t, dir, "gcs_server.out",
			"[2026-11-22 10:20:25,000 I 12 12] (gcs_server) gcs_server.cc:201: Gcs Debug state:\n")
		put(t, dir, layout.MetadataKey(layout.DefaultRoot, rayevents.Session, layout.End),
			`{"end": "2026-11-22T10:20:31Z"}`)
		got := report(t, load(t, dir, rayevents.Session, nil)).Findings[0].Title
		says.True(t, strings.HasSuffix(got, want) && strings.Contains(got, "Evicted") == (want != ""), "%s", got)
	}
	const why = "The workload is deactivated due to exceeding the maximum execution time"
	for name, c := range map[string]struct {
		code     int
		at, want string
	}{
		"told to end": {143, "10:15:50", "SIGTERM (exit code 143); its pod was ended with its cluster: " + why},
		"long before": {143, "10:12:50", "SIGTERM (exit code 143)"},
		"a crash":     {139, "10:15:50", "SIGSEGV (exit code 139)"},
	} {
		_, chain := badJob(t, submissionWithLog(t, c.code, "epoch 1\n", append(aliveNodes(), driverOf(1,
			"raysubmit_bad"), platformEvent("RayJob", "nightly", "Stopped", why, c.at))...))
		says.Equal(t, chain[len(chain)-1].Title, "The driver of job raysubmit_bad was ended by "+c.want, "%s", name)
	}
}

// TestTooFewReplicas: of a client that got no answer in time it is told which deployment waited in vain for more
// replicas; not of Ray's own timeouts, and not if another job may have asked it.
func TestTooFewReplicas(t *testing.T) {
	line := func(clock, text string) string {
		level, text, _ := strings.Cut(text, " ")
		return level + " 2026-11-22 " + clock + ",857 controller 1560 -- " + text + "\n"
	}
	grows := line("10:13:00", "INFO Upscaling Deployment(name='Llama', app='chat') from 2 to 6 replicas. Current ongoing requests: 212.00, current running replicas: 2.") +
		line("10:14:01", "WARNING Deployment 'Llama' in application 'chat' has 4 replicas that have taken more than 30s to be scheduled.")
	const told = "; before that Deployment 'Llama' in application 'chat' has 4 replicas that have taken more than 30s to be scheduled."
	for name, c := range map[string]struct{ raised, log, want string }{
		"in vain":       {"TimeoutError", grows, told},
		"of a library":  {"httpx.ReadTimeout: timed out", grows, told},
		"it came":       {"TimeoutError", grows + line("10:14:30", "INFO Replica(id='r3', deployment='Llama', app='chat') started successfully on node 'n' after 4.1s (PID: 12)."), ""},
		"of Ray":        {"ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.", grows, ""},
		"of a lock":     {"  File \"/app/a.py\", line 2, in main\n    raise TimeoutError(said)\nTimeoutError: no lock on table orders within 30 s", grows, ""},
		"no answer":     {"  File \"/app/a.py\", line 2, in main\n    raise TimeoutError(said)\nTimeoutError: no answer within 30 s", grows, told},
		"of no timeout": {"ValueError: answer has no text", grows, ""},
		"two jobs":      {"TimeoutError: no row of sales", grows, ""},
		"two, named":    {"TimeoutError: no answer of application chat", grows, told},
	} {
		events := []string{driverOf(1, "raysubmit_bad")}
		if strings.HasPrefix(name, "two") {
			events = append(events, driverOf(2, open))
		}
		dir := submissionWithLog(t, 1, trace(c.raised), events...)
		storeLog(t, dir, "serve/controller_1560.log", c.log)
		_, chain := badJob(t, dir)
		title := chain[len(chain)-1].Title
		says.True(t, strings.HasSuffix(title, c.want) && strings.Contains(title, "Llama") == (c.want != ""), "%s: %s", name, title)
	}
}

// TestEndedByScript: of a driver that a signal ended it is told what the script that sent the signal said, and which
// limit of the process a signal stands for.
func TestEndedByScript(t *testing.T) {
	for name, c := range map[string]struct {
		code      int
		log, want string
	}{
		"a watchdog":   {143, "epoch 1\nwatch.sh: no checkpoint for 30 min, stopping pid 431\nwatch.sh: line 12:   431 Terminated              python train.py\n", "SIGTERM (exit code 143); the last it printed: watch.sh: no checkpoint for 30 min, stopping pid 431"},
		"it went on":   {143, "stopping workers of step 3\nepoch 1\nwatch.sh: line 12:   431 Terminated              python train.py\n", "SIGTERM (exit code 143)"},
		"by another":   {143, "epoch 1\nstopping workers of step 3\n", "SIGTERM (exit code 143)"},
		"its CPU time": {152, "epoch 1\nnightly.sh: line 7:   431 CPU time limit exceeded (core dumped) python rank.py\n", "SIGXCPU (CPU time limit exceeded, exit code 152)"},
		"its files":    {153, "epoch 1\n", "SIGXFSZ (File size limit exceeded, exit code 153)"},
	} {
		_, chain := badJob(t, submissionWithLog(t, c.code, c.log))
		says.Equal(t, chain[len(chain)-1].Title, "The driver of job raysubmit_bad was ended by "+c.want, "%s", name)
	}
}
