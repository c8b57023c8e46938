package findings

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

const docsRoot = "https://docs.ray.io/en/latest/"

// help says what to do about a kind of finding. docs is the address of Ray's page about it, below docsRoot.
type help struct{ advice, docs string }

var helpOf = map[string]help{
	OutOfMemory: {
		"Give the tasks more memory (memory= in @ray.remote), run fewer of them on a node (num_cpus=), or use larger " +
			"nodes.",
		"ray-observability/user-guides/debug-apps/debug-memory.html",
	},
	NodeDied: {
		"Look at the node's pod or machine (evicted, preempted, out of memory?), and set max_retries or max_restarts " +
			"so that its work is done again.",
		"ray-core/fault_tolerance/nodes.html",
	},
	GCSDied: {
		"See why gcs_server ended: its last lines, and whether the kernel or the pod's memory limit killed it. With " +
			"GCS fault tolerance (Redis) jobs outlive it.",
		"ray-core/fault_tolerance/gcs.html",
	},
	Pod: {
		"Look at the pod's events, its requests against the machines and the quota, its image's name and its volumes.",
		"cluster/kubernetes/troubleshooting/troubleshooting.html",
	},
	WorkerDied: {
		"Look at the worker's log for a crash of native code; if there is none, the kernel's log says whether it " +
			"killed the process.",
		"ray-observability/user-guides/debug-apps/debug-failures.html",
	},
	WorkerStart: {
		"Check that the image and the runtime environment have the Python that workers are started with; raylet.err " +
			"says what it printed.",
		"ray-core/handling-dependencies.html#runtime-environments",
	},
	ActorDied: {
		"Look at the log of the actor's worker; max_restarts and max_task_retries let Ray start it again.",
		"ray-core/fault_tolerance/actors.html",
	},
	ActorStart: {
		"See what the constructor waits for, by its worker's log or a stack trace (the dashboard's, while it runs): " +
			"a download, a lock, a service, a task that needs the actor's own resources.",
		"ray-observability/user-guides/debug-apps/debug-hangs.html",
	},
	TaskFailed: {
		"Correct what the traceback shows; for errors that pass, set max_retries and retry_exceptions.",
		"ray-core/fault_tolerance/tasks.html",
	},
	RuntimeEnv: {
		"Correct the runtime environment (packages, URIs, working_dir) and look at runtime_env_setup-*.log of the " +
			"node.",
		"ray-core/handling-dependencies.html#runtime-environments",
	},
	Entrypoint: {
		"Check that the command exists in the image and that the file is in working_dir.",
		"cluster/running-applications/job-submission/quickstart.html",
	},
	JobFailed: {
		"Read the end of the driver's log.", "ray-observability/user-guides/debug-apps/debug-failures.html",
	},
	DriverKilled: {
		"See who sent the signal: SIGKILL is usually the kernel or the pod's memory limit, SIGTERM somebody who " +
			"stopped it.",
		"ray-observability/user-guides/debug-apps/debug-memory.html",
	},
	Unschedulable: {
		"Ask for less than the largest node has, or add nodes that have it.", "ray-core/scheduling/resources.html",
	},
	Starved: {
		"Let what holds the resources end first, ask for less, or add nodes.", "ray-core/scheduling/index.html",
	},
	ObjectStore: {
		"Give nodes more disk for spilling or a larger object store, and keep fewer objects at a time.",
		"ray-core/objects/object-spilling.html",
	},
	ObjectLost: {
		"Objects of ray.put are lost with their owner: let a task make them, so that Ray can make them again.",
		"ray-core/fault_tolerance/objects.html",
	},
	Serve: {
		"Correct what the replica's traceback shows and deploy again.", "serve/production-guide/best-practices.html",
	},
	Data: {
		"Look at what failed in it, and at the dataset's log (ray-data/).", "data/monitoring-your-workload.html",
	},
	Train: {
		"Look at the failed worker's log; FailureConfig(max_failures=) lets Train start again from its last " +
			"checkpoint.",
		"train/user-guides/fault-tolerance.html",
	},
	Timeout: {
		"See what it waited for: a task that hangs, or one that was not scheduled.",
		"ray-observability/user-guides/debug-apps/debug-hangs.html",
	},
	Unended: {
		"See what it was waiting for and how the cluster ended; give the job more time, or let the cluster end after " +
			"its jobs (shutdownAfterJobFinishes of a RayJob).",
		"cluster/running-applications/job-submission/quickstart.html",
	},
	Cancelled:  {"Nothing, if it was meant.", "ray-core/tasks.html#cancelling-running-tasks"},
	JobStopped: {"Nothing, if it was meant.", "cluster/running-applications/job-submission/quickstart.html"},
}

// What is said of some findings instead of the help of their kind.
var (
	withItsNode = help{
		"See why the node died. If its loss is to be expected, max_retries lets Ray run the task again elsewhere; " +
			"retry_exceptions has no effect on it.",
		"ray-core/fault_tolerance/nodes.html",
	}
	withItsActor = help{
		"See why the actor died. max_restarts and max_task_retries let Ray start it again and repeat the calls.",
		"ray-core/fault_tolerance/actors.html",
	}
	actorWithItsNode = help{
		"See why the node died. If its loss is to be expected, max_restarts and max_task_retries let Ray start the " +
			"actor again elsewhere.",
		"ray-core/fault_tolerance/nodes.html",
	}
	envTakesLong = help{
		"Put the packages into the image, or give the environment more time (config={\"setup_timeout_seconds\": …}) " +
			"and a package index that is near.",
		"ray-core/handling-dependencies.html#runtime-environments",
	}
	consequence = help{"See its cause, which is told before.",
		"ray-observability/user-guides/debug-apps/debug-failures.html"}
	userCode = help{"Correct what the traceback at the end of the driver's log shows.", consequence.docs}
)

// Kinds returns all kinds of findings, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(helpOf)) }

// advice is what to do about failures that say a certain thing, whatever kind of finding they are.
type advice struct {
	types []string              // the exceptions that it is about; nil: any
	says  func() *regexp.Regexp // what the finding's title says; nil: anything
	help
}

// advices are tried in order; the first that fits is given.
var advices = []advice{
	{says: re(`(?i)package size .* exceeds the maximum|exceeds the maximum size`), help: help{
		"Leave large files out of working_dir (excludes, .rayignore), or give the address of a zip file in object " +
			"storage.",
		"ray-core/handling-dependencies.html#runtime-environments",
	}},
	{says: re(`(?i)address already in use|failed to bind|errno 98|port \d+ is (?:already )?(?:in use|taken)`),
		help: help{
			"Another process listens on this port: end it, or take another port (for Serve http_options, for Ray the " +
				"ports of ray start).",
			"ray-core/configure.html#ports-configurations",
		}},
	{says: re(`(?i)no node has any GPU`), help: help{
		"Add a worker group with GPUs (resource limits nvidia.com/gpu), or do not ask for any (num_gpus, use_gpu, " +
			"entrypoint_num_gpus).",
		"cluster/kubernetes/user-guides/gpu.html",
	}},
	{says: re(`(?i)version mismatch`), help: help{
		"Use the same versions of Ray and Python for the driver as in the cluster's image.", "cluster/faq.html",
	}},
	{types: []string{"ModuleNotFoundError", "ImportError"}, help: help{
		"Install the package in the image of all nodes, or send it with the job: runtime_env with working_dir, " +
			"py_modules or pip. What is only on the driver's node workers cannot import.",
		"ray-core/handling-dependencies.html#runtime-environments",
	}},
	{says: re(`(?i)no matching distribution|could not find a version that satisfies|resolution.?impossible`),
		help: help{
			"Correct the package's name and version, and check that the index has it for this Python and can be " +
				"reached.",
			"ray-core/handling-dependencies.html#runtime-environments",
		}},
	{says: gpuFull, help: help{
		"Take less GPU memory: smaller batches, fewer processes on a GPU (num_gpus=1), a smaller model or lower " +
			"precision.", "ray-core/scheduling/accelerators.html",
	}},
	{says: re(`(?i)CUDA error|device-side assert|NCCL|cuDNN|CUBLAS`), help: help{
		"Run it with CUDA_LAUNCH_BLOCKING=1 (and NCCL_DEBUG=INFO) in env_vars of the runtime environment to see " +
			"which call failed.",
		"ray-core/scheduling/accelerators.html",
	}},
	{types: []string{"MemoryError", "ArrayMemoryError", "_ArrayMemoryError"}, help: help{
		"It asked for more memory than its process could get: work on smaller parts, or give it more (memory= in " +
			"@ray.remote, larger pods).",
		"ray-observability/user-guides/debug-apps/debug-memory.html",
	}},
	{says: re(`(?i)no space left on device|disk (?:quota|is full)|errno 28`), help: help{
		"Free or enlarge the disk that it wrote to (the path is in the traceback), or write to storage with more room.",
		"ray-core/objects/object-spilling.html",
	}},
	{says: re(`(?i)cannot pickle|can't pickle|could not serialize|not serializable|PicklingError`), help: help{
		"Make such objects (locks, connections, clients) inside the task or actor; ray.util.inspect_serializability " +
			"finds which one it is.",
		"ray-core/objects/serialization.html",
	}},
	{says: re(`(?i)name or service not known|name resolution|nodename nor servname|connection refused|no route to host|network is unreachable|` +
		`connection (?:reset|timed out)|max retries exceeded|failed to establish a new connection`), help: help{
		"Check that the service runs, its address and port, and that pods may reach it (DNS, network policies).",
		"ray-observability/user-guides/debug-apps/debug-failures.html",
	}},
	{says: re(`(?i)access ?denied|permission denied|forbidden|unauthorized|no ?credentials|invalid ?access ?key|expired ?token|errno 13`), help: help{
		"Check the rights and the credentials of the pods (service account, secret, bucket policy, the file's owner).",
		"cluster/kubernetes/user-guides.html",
	}},
	{types: []string{"FileNotFoundError", "NotADirectoryError"}, help: help{
		"Check the path on the node where it ran: what is on one node's disk other nodes do not see. Use storage " +
			"that all nodes share, or send the file with working_dir.",
		"ray-core/handling-dependencies.html#runtime-environments",
	}},
}

// re keeps the table above readable.
func re(expression string) func() *regexp.Regexp { return lazyregexp.New(expression) }

// ofKind holds kinds whose own advice fits whatever else their titles say.
var ofKind = map[string]bool{NodeDied: true, GCSDied: true, OutOfMemory: true, Pod: true, Starved: true,
	Cancelled: true, JobStopped: true, Unended: true}

// help returns what to do about a finding.
func (f *finding) help() help {
	if f.advised != (help{}) {
		return f.advised
	}
	if f.ended && len(f.because) > 0 {
		return consequence
	}
	for _, a := range advices {
		if ofKind[f.Kind] || strings.Contains(f.Title, "rpc_code") {
			break
		}
		if (a.types == nil || slices.Contains(a.types, f.what.Type)) &&
			(a.says == nil || a.says().MatchString(f.Title)) {
			return a.help
		}
	}
	if f.Kind == JobFailed && f.what.Type != "" && !strings.Contains(f.Title, "exit code") {
		return userCode
	}
	return helpOf[f.Kind]
}

// isDocs reports whether an address is the page of some help.
func isDocs(address string) bool {
	is := func(h help) bool { return address == docsRoot+h.docs }
	return slices.ContainsFunc(slices.Collect(maps.Values(helpOf)), is) ||
		slices.ContainsFunc(advices, func(a advice) bool { return is(a.help) }) ||
		slices.ContainsFunc([]help{withItsNode, withItsActor, envTakesLong, consequence}, is)
}
