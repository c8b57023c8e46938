package findings_test

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings"
)

// TestAdvice: what to do depends on what a failure says, not only on its kind. A consequence sends the reader to its
// cause.
func TestAdvice(t *testing.T) {
	for raised, want := range map[string]string{
		"MemoryError: Unable to allocate 3 TiB":                                                        "more memory than its process",
		"ValueError: Package size (712.00MiB) exceeds the maximum size of 512.00MiB.":                  `excludes, \.rayignore`,
		"OSError: [Errno 98] Address already in use":                                                   "take another port",
		"ModuleNotFoundError: No module named 'features'":                                              "py_modules",
		"AttributeError: Can't get attribute 'Scaler' on <module 'prep' from '/app/prep.py'>":          "another version of this module",
		"AttributeError: Can't get attribute 'Net' on <module '__main__' from '/app/eval.py'>":         "Correct what the traceback",
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB":                       "smaller batches",
		"RuntimeError: NCCL error: unhandled system error":                                             "NCCL_DEBUG",
		"OSError: [Errno 28] No space left on device: '/mnt/ckpt'":                                     "Free or enlarge the disk",
		"TypeError: cannot pickle '_thread.lock' object":                                               "inspect_serializability",
		"redis.exceptions.ConnectionError: Error 111 connecting to redis:6379. Connection refused.":    "service runs",
		"botocore.exceptions.ClientError: An error occurred (AccessDenied)":                            "credentials",
		"ray.exceptions.TaskUnschedulableError: The task is not schedulable: " + pinned:                "soft=True",
		"OSError: libsox.so.3: cannot open shared object file: No such file or directory":              "library of the system in the image of all nodes",
		"FileNotFoundError: [Errno 2] No such file or directory: '/mnt/x'":                             "other nodes do not see",
		"RuntimeError: Unable to set up cluster storage with the following settings:\nStorageContext<": "all nodes share",
		"ValueError: The actor A is too large (228 MiB > FUNCTION_SIZE_ERROR_THRESHOLD=95 MiB).":       "ray.put",
		"KeyError: 'x'": "Correct what the traceback",
	} {
		dir := submissionWithLog(t, 1, trace(raised), driverOf(1, "raysubmit_bad"))
		_, chain := badJob(t, dir)
		says.True(t, len(chain) == 1 && regexp.MustCompile(want).MatchString(chain[0].Advice), "%s: %+v", raised, chain)
	}
	dir := submissionWithLog(t, 1,
		trace("ray.exceptions.RayTaskError(ValueError): ray::parse() (pid=1, ip=10.0.0.1)\nValueError: bad row"),
		append(failedTask(1, "parse", "TASK_EXECUTION_EXCEPTION", "ray::parse()\nValueError: bad row"),
			driverOf(1, "raysubmit_bad"))...)
	if _, chain := badJob(t, dir); len(chain) != 2 || !strings.HasPrefix(chain[0].Advice, "See its cause") ||
		!strings.HasPrefix(chain[1].Advice, "Correct what") {
		t.Errorf("a consequence: %+v", chain)
	}
}

// oomText is Ray's message about workers that its memory monitor killed.
const oomText = "2 worker(s) were killed due to the node running low on memory. Memory on the node (IP: 10.0.0.%s, ID: 02) was 15.20GB used / 16.00GB limit (0.95)\n" +
	"Ray killed 1 worker(s) based on the killing policy\nConsidered workers: [\nSelected to kill: (Task(5409): job ID=01000000, task name=%s, required resources={CPU: 1}, " +
	"pid=209, actual memory used=1.36GB, worker ID=b3)\n]\nTop 10 memory users: PID\tMEM(GB)\tCOMMAND\n209\t9.25\t%s\n7\t0.1\tray::IDLE\n"

// TestMemoryTitle: memory that ran out is told for each node, with who was killed, who used most, and how much.
func TestMemoryTitle(t *testing.T) {
	said := func(node, task, top string) string {
		return strings.NewReplacer("10.0.0.%s", "10.0.0."+node, "name=%s", "name="+task, "9.25\t%s",
			"9.25\t"+top).Replace(oomText)
	}
	first := failedTask(1, "embed", "OUT_OF_MEMORY", said("2", "embed", "ray::ServeReplica:llm:Model"))
	first[1] = strings.Replace(first[1], `"nodeId": "", "workerId"`,
		`"nodeId": "AgICAgICAgICAgICAgICAgICAgICAgICAgICAg==", "workerId"`, 1)
	second := failedTask(1, "score", "OUT_OF_MEMORY", said("1", "score", "ray::score"))
	second[1] = strings.Replace(second[1], `"nodeId": "", "workerId"`,
		`"nodeId": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==", "workerId"`, 1)
	events := append(append(append(first, second...), aliveNodes()...), driverOf(1, "raysubmit_bad"))
	r, _ := badJob(t, submissionWithLog(t, 1, trace("ray.exceptions.OutOfMemoryError: "+said("2", "embed", "x")),
		events...))
	var titles []string
	for _, f := range r.Findings {
		if f.Kind == findings.OutOfMemory {
			titles = append(titles, f.Title)
		}
	}
	all := strings.Join(titles, "\n")
	for _, want := range []string{
		"embed ran out of memory: Ray's memory monitor killed its process on node 10.0.0.2 (15.20 of 16.00 GB were used, 1.36 GB of it by embed; the largest process was deployment Model of application llm with 9.25 GB)",
		"score ran out of memory: Ray's memory monitor killed its process on node 10.0.0.1 (15.20 of 16.00 GB were used, 1.36 GB of it by score)",
	} {
		says.True(t, strings.Contains(all, want), "no title %q:\n%s", want, all)
	}
}

// TestMemoryOfRaysOwn: of Ray's own actors a title about memory tells only if it is about no others.
func TestMemoryOfRaysOwn(t *testing.T) {
	for want, classes := range map[string][]string{
		"Embedder, Embedder.ping ran":       {"_StatsActor", "Embedder"},
		"Embedder, Embedder.ping  ran":      {"Embedder", "ActorLocationTracker"},
		"_StatsActor, _StatsActor.ping ran": {"_StatsActor"},
	} {
		events := []string{driverOf(1, "raysubmit_bad")}
		for _, class := range classes {
			events = append(events, deadActor(class, "oomContext", oomText, "OUT_OF_MEMORY")...)
		}
		r, _ := badJob(t, submissionWithLog(t, 1, "the old index stays\n", events...))
		if f := r.Findings[0]; !strings.HasPrefix(f.Title, strings.ReplaceAll(want, "  ", " ")+" out of memory") {
			t.Errorf("%s: %s", classes, f.Title)
		}
	}
}

// trialActor returns the events of a trial's actor that ran out of memory, with the name that the actor shows, and of
// two calls of it.
func trialActor(shown string) []string {
	events := deadActor("ImplicitFunc", "oomContext", oomText, "OUT_OF_MEMORY")
	events[1] = strings.Replace(events[1], `"state": "DEAD"`, `"state": "DEAD", "reprName": "`+shown+`"`, 1)
	return append(events, driverOf(1, "raysubmit_bad"))
}

// TestTrialWithoutMemory: a trial has the name of the function that its actor shows, if Tune printed none, and is named
// once, with its calls in the same finding.
func TestTrialWithoutMemory(t *testing.T) {
	for name, c := range map[string]struct {
		log, title string
		events     []string
	}{
		"shown by its actor": {"", "^Tune trial fit_kernel ran out of memory: ", trialActor("fit_kernel")},
		"of two, the one that died": {"", "^Tune trial fit_kernel ran out of memory: ",
			append(trialActor("fit_kernel"), otherTrial("warm_up")...)},
		"printed by Tune": {"Trial task failed for trial tuned_c1f3a_00000 \n", "^Tune trial tuned ran out of memory: ",
			trialActor("fit_kernel")},
		"shown by nobody": {"", "^ImplicitFunc, a Tune trial ran out of memory: ", trialActor("")},
	} {
		r, chain := badJob(t, submissionWithLog(t, 1, c.log+trace("ray.exceptions.OutOfMemoryError: "+oomText),
			c.events...))
		root := chain[len(chain)-1]
		says.True(t, root.Kind == findings.OutOfMemory && regexp.MustCompile(c.title).MatchString(root.Title), "%s: %s",
			name, root.Title)
		if n := len(slices.DeleteFunc(r.Findings, func(f *findings.Finding) bool {
			return f.Kind != findings.OutOfMemory
		})); n != 1 {
			t.Errorf("%s: %d findings about memory", name, n)
		}
	}
}

// otherTrial returns the events of another trial of the same job, which lives.
func otherTrial(shown string) []string {
	about := `"actorId": "` + base64.StdEncoding.EncodeToString(append([]byte("othertrial12"), 0, 0, 0, 1)) + `"`
	return []string{
		eventOf("do", "ACTOR_DEFINITION_EVENT", "actorDefinitionEvent",
			about+`, "jobId": "AAAAAQ==", "className": "ImplicitFunc", "requiredResources": {"CPU": 1.0}`),
		eventOf("lo", "ACTOR_LIFECYCLE_EVENT", "actorLifecycleEvent", about+
			`, "stateTransitions": [{"state": "ALIVE", "timestamp": "2026-11-22T10:15:50Z", "reprName": "`+shown+`"}]`),
	}
}

// TestTrialWithParameters: the function that tune.with_parameters wraps gives a trial its name.
func TestTrialWithParameters(t *testing.T) {
	const tune = "Traceback (most recent call last):\n  File \"/env/tune/trainable/function_trainable.py\", line 249, in _trainable_func\n    output = fn()\n"
	const inner = "  File \"/env/ray/tune/trainable/util.py\", line 134, in inner\n    return trainable(config, **fn_kwargs)\n           ^^^^^\n"
	own := func(function string) string {
		return "  File \"/app/fit.py\", line 18, in " + function + "\n    rows()\nOSError: torn"
	}
	for text, want := range map[string]string{
		tune + inner + own("fit_forecast"): "^Tune trial fit_forecast failed: OSError: torn$",
		tune + own("fit_forecast"):         "^Tune trial fit_forecast failed: OSError: torn$",
		tune + own("inner"):                "^Tune trial inner failed: OSError: torn$", // a program's own
	} {
		_, chain := badJob(t, submissionWithLog(t, 1, trace("RuntimeError: no result"),
			append(failedTask(1, "ImplicitFunc.train", "TASK_EXECUTION_EXCEPTION", text), driverOf(1, "raysubmit_bad"))...))
		if title := chain[len(chain)-1].Title; !regexp.MustCompile(want).MatchString(title) {
			t.Errorf("%s: %s", want, title)
		}
	}
}

// TestRaisers: a driver's failure names who raised the exception, as people know it.
func TestRaisers(t *testing.T) {
	inRank := strings.Replace(trace("ValueError: bad batch"), "<module>", "fit", 1)
	for raised, want := range map[string]string{
		"ray.exceptions.RayTaskError(ValueError): ray::ServeReplica:shop:Cart.handle_request() (pid=1)\nValueError: no cart": "deployment Cart of application shop raised ValueError: no cart",
		"ray.exceptions.RayTaskError(ValueError): ray::Pool.step() (pid=1)\nValueError: no step":                             "Pool.step raised ValueError: no step",
		"ray.train.WorkerGroupError: Training failed due to worker errors:\n[Rank 3 Error Snippet]:\n" +
			inRank: "rank 3 of its Train run raised ValueError: bad batch",
		"ValueError: mine": "its driver raised ValueError: mine",
		// the run's failure was handled, or told by a trial
		"ray.train.WorkerGroupError: Training failed due to worker errors:\n[Rank 1,2 Error Snippet]:\n" +
			inRank + "\n" + trace("RuntimeError: No best trial found"): "its driver raised RuntimeError: No best trial found; before that ValueError: bad batch",
	} {
		_, chain := badJob(t, submissionWithLog(t, 1, trace(raised), driverOf(1, "raysubmit_bad")))
		says.True(t, len(chain) == 1 && chain[0].Title == "Job raysubmit_bad failed: "+want, "want %q: %s", want,
			chain[0].Title)
	}
}

// TestPassedOn: a failure that other tasks passed on happened once.
func TestPassedOn(t *testing.T) {
	const text = "ray::publish() (pid=1, ip=10.0.0.1)\n  At least one of the input arguments for this task could not be computed:\nray.exceptions.RayTaskError: ray::read() (pid=2, ip=10.0.0.1)\n" +
		"  File \"/app/x.py\", line 1, in read\nOSError: snapshot is gone"
	events := append(failedTask(1, "publish", "TASK_EXECUTION_EXCEPTION", text),
		failedTask(1, "join", "TASK_EXECUTION_EXCEPTION", strings.Replace(text, "publish", "join", 1))...)
	events = append(events, failedTask(1, "read", "TASK_EXECUTION_EXCEPTION",
		"ray::read() (pid=2, ip=10.0.0.1)\n  File \"/app/x.py\", line 1, in read\nOSError: snapshot is gone")...)
	_, chain := badJob(t, submissionWithLog(t, 1, trace("OSError: snapshot is gone"),
		append(events, driverOf(1, "raysubmit_bad"))...))
	says.True(t, len(chain) == 2 && chain[1].Title == "read failed: OSError: snapshot is gone" && chain[1].Count == 1 &&
		strings.HasPrefix(chain[1].Evidence[0].Text, "task read "), "the cause: %+v", chain[len(chain)-1])
}

// TestAdviceFitsTheCause: what failed only because its node or actor died is not said to have a traceback, nor to be
// helped by retry_exceptions.
func TestAdviceFitsTheCause(t *testing.T) {
	seen := 0
	for _, archive := range []string{"node_death", "gone-2.60", "spot-2.60", "more-2.60"} {
		store, ref := recorded(t, archive)
		for _, f := range report(t, loadFrom(t, store, ref, nil)).Findings {
			with := ""
			switch {
			case strings.Contains(f.Title, "because its node"), strings.Contains(f.Title, "died with its node"):
				with = "the node died"
			case strings.Contains(f.Title, "because the actor had died"):
				with = "the actor died"
			default:
				continue
			}
			seen++
			says.True(t, !strings.Contains(f.Advice, "traceback") && strings.Contains(f.Advice, with), "%s: %q: %s",
				archive, f.Title, f.Advice)
		}
	}
	says.True(t, seen >= 3, "only %d such findings were seen", seen)
}
