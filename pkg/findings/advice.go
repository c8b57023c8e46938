package findings

import (
	_ "embed"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

const docsRoot = "https://docs.ray.io/en/latest/"

// help says what to do about a finding. Docs is the address of Ray's page about it, below docsRoot.
type help struct{ Advice, Docs string }

//go:embed help.json
var helpJSON []byte

// helps are what help.json has: what to do about each kind, and what is said of some findings instead, by a name.
var helps = sync.OnceValue(func() (all struct{ Kinds, Instead map[string]help }) {
	if err := json.Unmarshal(helpJSON, &all); err != nil {
		panic("help.json: " + err.Error())
	}
	return all
})

// Names in help.json of what is said instead of the help of a kind.
const (
	withItsNode      = "with its node"
	withItsActor     = "with its actor"
	actorWithItsNode = "actor with its node"
	envTakesLong     = "environment takes long"
	consequence      = "consequence"
	userCode         = "user code"
)

// Kinds returns all kinds of findings, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(helps().Kinds)) }

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
	if f.advised != "" {
		return helps().Instead[f.advised]
	}
	if f.ended && len(f.because) > 0 {
		return helps().Instead[consequence]
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
		return helps().Instead[userCode]
	}
	return helps().Kinds[f.Kind]
}

// isDocs reports whether an address is the page of some help.
func isDocs(address string) bool {
	is := func(h help) bool { return address == docsRoot+h.Docs }
	all := helps()
	return slices.ContainsFunc(advices, func(a advice) bool { return is(a.help) }) ||
		slices.ContainsFunc(slices.Collect(maps.Values(all.Kinds)), is) ||
		slices.ContainsFunc(slices.Collect(maps.Values(all.Instead)), is)
}
