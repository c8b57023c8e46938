package findings

import (
	"maps"
	"slices"
)

const docsRoot = "https://docs.ray.io/en/latest/"

// help says what to do about a kind of finding. docs is the address of Ray's page about it, below docsRoot.
type help struct{ advice, docs string }

var helpOf = map[string]help{
	OutOfMemory: {
		"Give the tasks more memory (memory= in @ray.remote), run fewer of them on a node (num_cpus=), or use larger nodes.",
		"ray-observability/user-guides/debug-apps/debug-memory.html",
	},
	NodeDied: {
		"Look at the node's pod or machine (evicted, preempted, out of memory?), and set max_retries or max_restarts so that its work is done again.",
		"ray-core/fault_tolerance/nodes.html",
	},
	Pod: {
		"Look at the pod's events, its requests against the machines and the quota, its image's name and its volumes.",
		"cluster/kubernetes/troubleshooting/troubleshooting.html",
	},
	WorkerDied: {
		"Look at the worker's log for a crash of native code; if there is none, the kernel's log says whether it killed the process.",
		"ray-observability/user-guides/debug-apps/debug-failures.html",
	},
	WorkerStart: {
		"Check that the image and the runtime environment have the Python that workers are started with; raylet.err says what it printed.",
		"ray-core/handling-dependencies.html#runtime-environments",
	},
	ActorDied: {
		"Look at the log of the actor's worker; max_restarts and max_task_retries let Ray start it again.",
		"ray-core/fault_tolerance/actors.html",
	},
	ActorStart: {
		"See what the constructor waits for, by its worker's log or a stack trace (the dashboard's, while it runs): a download, a lock, a service, a task that needs the actor's own resources.",
		"ray-observability/user-guides/debug-apps/debug-hangs.html",
	},
	TaskFailed: {
		"Correct what the traceback shows; for errors that pass, set max_retries and retry_exceptions.",
		"ray-core/fault_tolerance/tasks.html",
	},
	RuntimeEnv: {
		"Correct the runtime environment (packages, URIs, working_dir) and look at runtime_env_setup-*.log of the node.",
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
		"See who sent the signal: SIGKILL is usually the kernel or the pod's memory limit, SIGTERM somebody who stopped it.",
		"ray-observability/user-guides/debug-apps/debug-memory.html",
	},
	Unschedulable: {
		"Ask for less than the largest node has, or add nodes that have it.", "ray-core/scheduling/resources.html",
	},
	Starved: {
		"Let what holds the resources end first, ask for less, or add nodes.", "ray-core/scheduling/index.html",
	},
	ObjectStore: {
		"Give nodes more disk for spilling or a larger object store, and keep fewer objects at a time.", "ray-core/objects/object-spilling.html",
	},
	ObjectLost: {
		"Objects of ray.put are lost with their owner: let a task make them, so that Ray can make them again.", "ray-core/fault_tolerance/objects.html",
	},
	Serve: {
		"Correct what the replica's traceback shows and deploy again.", "serve/production-guide/best-practices.html",
	},
	Data: {
		"Look at what failed in it, and at the dataset's log (ray-data/).", "data/monitoring-your-workload.html",
	},
	Train: {
		"Look at the failed worker's log; FailureConfig(max_failures=) lets Train start again from its last checkpoint.",
		"train/user-guides/fault-tolerance.html",
	},
	Timeout: {
		"See what it waited for: a task that hangs, or one that was not scheduled.", "ray-observability/user-guides/debug-apps/debug-hangs.html",
	},
	Unended: {
		"See what it was waiting for and how the cluster ended; give the job more time, or let the cluster end after its jobs (shutdownAfterJobFinishes of a RayJob).",
		"cluster/running-applications/job-submission/quickstart.html",
	},
	Cancelled:  {"Nothing, if it was meant.", "ray-core/tasks.html#cancelling-running-tasks"},
	JobStopped: {"Nothing, if it was meant.", "cluster/running-applications/job-submission/quickstart.html"},
}

// Advice for what only failed with something else: there is no traceback to look at.
var (
	withItsNode = help{
		"See why the node died. If its loss is to be expected, max_retries lets Ray run the task again elsewhere; retry_exceptions has no effect on it.",
		"ray-core/fault_tolerance/nodes.html",
	}
	withItsActor = help{
		"See why the actor died. max_restarts and max_task_retries let Ray start it again and repeat the calls.",
		"ray-core/fault_tolerance/actors.html",
	}
	envTakesLong = help{
		"Put the packages into the image, or give the environment more time (config={\"setup_timeout_seconds\": …}) and a package index that is near.",
		"ray-core/handling-dependencies.html#runtime-environments",
	}
	actorWithItsNode = help{
		"See why the node died. If its loss is to be expected, max_restarts and max_task_retries let Ray start the actor again elsewhere.",
		"ray-core/fault_tolerance/nodes.html",
	}
)

// otherHelp is what findings may say besides the help of their kind.
var otherHelp = []help{withItsNode, withItsActor, actorWithItsNode, envTakesLong}

// Kinds returns all kinds of findings, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(helpOf)) }
