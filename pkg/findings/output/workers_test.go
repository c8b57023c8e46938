package output

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// marks are those of three workers.
var marks = map[string]string{"f": "\x1b[36m(f pid=7)\x1b[0m ", "g": "\x1b[36m(Step.go pid=8, ip=10.0.0.2)\x1b[0m ", "-": ""}

// copied returns a driver's log of lines each of which begins with the letter of its worker, or with "-" if it is the
// driver's own.
func copied(lines string) string {
	var log strings.Builder
	for line := range strings.Lines(strings.TrimPrefix(lines, "\n")) {
		log.WriteString(marks[line[:1]] + strings.TrimPrefix(line[1:], " "))
	}
	return log.String()
}

// TestParagraphsOfWorkers: what a worker printed is read as what a program itself prints: boxes, trees, chains of
// causes, fields and frames, also if others printed between its lines.
func TestParagraphsOfWorkers(t *testing.T) {
	for name, c := range map[string]struct{ log, who, want string }{
		"a box": {`
f ╭─ Error ──────────────────────╮
f │ No such option: --epoch      │
f │ Did you mean --epochs?       │
f ╰──────────────────────────────╯
`, "f", "Error: No such option: --epoch Did you mean --epochs?"},
		"an indented error": {`
f checking volumes
f    * lake-7: cannot be mounted
f done
`, "f", "* lake-7: cannot be mounted"},
		"uv's tree": {`
f Using Python 3.11
f   × No solution found when resolving dependencies:
f   ╰─▶ Because acme was not found in the registry and you require acme, we can
f       conclude that your requirements are unsatisfiable.
`, "f", "× No solution found when resolving dependencies: Because acme was not found in the registry and you require acme, we can conclude that your requirements are unsatisfiable."},
		"pydantic": {`
f pydantic.ValidationError: 1 validation error for Config
f lr
f   Input should be a valid number, unable to parse string as a number [type=float_parsing]
f     For further information visit https://errors.example.com/float_parsing
`, "f", "pydantic.ValidationError: 1 validation error for Config lr Input should be a valid number, unable to parse string as a number [type=float_parsing]"},
		"a list below a heading": {`
f ConfigError: 2 keys are wrong:
f   - optim.lr is missing
`, "f", "ConfigError: 2 keys are wrong: - optim.lr is missing"},
		"parts of an error": {`
f acme.ConfigError: 3 keys are wrong:
f   - lr is missing
f   - could not parse path
f   - cannot read name
`, "f", "acme.ConfigError: 3 keys are wrong: - lr is missing"},
		"a record in JSON with an exception": {`
g loading
f {"day": 4, "level": "error", "event": "cannot plan", "exception": "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in plan\n    check(depot)\nValueError: capacity of depot 7 is negative"}
g loaded
`, "f", "ValueError: capacity of depot 7 is negative"},
		"a damaged file": {`
f zipfile.BadZipFile: File is not a zip file
f 3 files are left
`, "f", "zipfile.BadZipFile: File is not a zip file"},
		"settings": {`
f acme.TornError: shard 3 is torn
f config:
f   ignore_errors: true
`, "f", "acme.TornError: shard 3 is torn"},
		"a chain": {`
f error: could not load index
f 
f Caused by:
f     0: could not open block 7
f     1: checksum differs
`, "f", "error: could not load index, caused by: checksum differs"},
		"frames": {`
f ValueError: shard 3 is torn
f Traceback (most recent call last):
f   File "/app/a.py", line 3, in read
f     raise CannotRead(
f         f"cannot read {shard}: failed"
f     )
`, "f", "ValueError: shard 3 is torn"},
		"frames in records": {`
f ERROR 11-27 10:00:09 [core.py:71] ValueError: shard 3 is torn
f ERROR 11-27 10:00:09 [core.py:71]   File "/app/a.py", line 3, in read
f ERROR 11-27 10:00:09 [core.py:71]     raise CannotRead(
f ERROR 11-27 10:00:10 [core.py:71]         f"cannot read {shard}: failed"
`, "f", "ERROR 11-27 10:00:09 [core.py:71] ValueError: shard 3 is torn"},
		"a stack in C++": {`
f CUDA error: an illegal memory access
f  /v/ray/_raylet.so(+0x10b96aa) [0x7f1] ray::core::fail_with_exception() failed
`, "f", "CUDA error: an illegal memory access"},
		"two workers, line by line": {`
f Error: no index
g ╭─ Error ──────────╮
f 
g │ Missing argument │
f Caused by:
g ╰──────────────────╯
f     0: no block 7
g bye
f     1: checksum differs
`, "Step.go", "Error: Missing argument"},
		"… in another order": {`
g ╭─ Error ──────────╮
g │ Missing argument │
f Error: no index
f 
g ╰──────────────────╯
f Caused by:
f     0: no block 7
g bye
f     1: checksum differs
`, "f", "Error: no index, caused by: checksum differs"},
		"one between others": {`
g part 1
f acme.RowError: 1 row is wrong:
g part 2
g part 3
f   price is missing
g part 4
`, "f", "acme.RowError: 1 row is wrong: price is missing"},
		"several workers alike": {"\nf cannot read shard 3\x1b[32m [repeated 3x across cluster]\x1b[0m\nf bye [repeated 2x across cluster] (Ray deduplicates logs by default.)\n",
			"f", "cannot read shard 3"},
		"the driver's lines": {`
f acme.RowError: 1 row is wrong:
- it took 3 s
f   price is missing
- error: gave up
`, "f", "acme.RowError: 1 row is wrong: price is missing"},
		"a file of the system": {`
f [2026-11-22 10:15:06,300 E 29 29] io.cc:7: mmap of 64 pages failed: Cannot allocate memory
f [2026-11-22 10:15:06,819 E 29 29] core_worker.cc:251: Failed to register worker 0100ff to Raylet
`, "f", "[2026-11-22 10:15:06,300 E 29 29] io.cc:7: mmap of 64 pages failed: Cannot allocate memory"},
		"ROCm": {`
f Memory access fault by GPU node-1 (Agent handle: 0x55ac) on address 0x7f95. Reason: Page not present or supervisor privilege.
f Failed to write segment data to pipe: Broken pipe
f GPU coredump: open core_pattern failed
`, "f", "Memory access fault by GPU node-1: Page not present or supervisor privilege"},
		"C++": {`
f terminate called after throwing an instance of 'c10::Error'
f   what():  CUDA error: out of memory
f 
f in a stack
`, "f", "c10::Error: CUDA error: out of memory"},
	} {
		who, said, _ := SaidByWorkers(copied(c.log), "", func(string) bool { return false }, false)
		if who != c.who || said != c.want {
			t.Errorf("%s: %s: %q, want %s: %q", name, who, said, c.who, c.want)
		}
	}
}

// TestGotOver: an error after which its worker printed more than a few lines that tell of none does not count, if it is asked so.
func TestGotOver(t *testing.T) {
	const failed = "f torch.OutOfMemoryError: CUDA out of memory\n"
	const served, other = "f INFO:engine:request is served\n", "g part is done\n"
	for log, want := range map[string]string{
		failed: "torch.OutOfMemoryError: CUDA out of memory",
		failed + strings.Repeat(other, 20) + "f closing\n":        "torch.OutOfMemoryError: CUDA out of memory",
		failed + strings.Repeat(served, maxErrorLines+1):          "",
		failed + strings.Repeat(served, maxErrorLines+1) + failed: "torch.OutOfMemoryError: CUDA out of memory",
	} {
		_, said, _ := SaidByWorkers(copied(log), "", func(string) bool { return false }, true)
		says.Equal(t, said, want, "%q", log)
	}
}

// TestPartsOfErrors: what is told with an error above it is not told instead of it.
func TestPartsOfErrors(t *testing.T) {
	const row, last = "acme.RowError: 1 row is wrong:\n  price is missing\n", "Last error:\ncannot reach a\n"
	for log, want := range map[string]string{row: "acme.RowError: 1 row is wrong: price is missing", last: "cannot reach a"} {
		says.Equal(t, LastWords(log), want)
		says.Equal(t, ErrorBefore(log, want), "", "if it is known")
	}
}

// BenchmarkWorkers reads 64 KiB of what workers printed, of which each line tells of an error: different ones, and one
// that is known.
func BenchmarkWorkers(b *testing.B) {
	lines := slices.Collect(func(yield func(string) bool) {
		for n := range 900 {
			yield(strings.Repeat("7", 1+n%9) + " rows are lost: disk is full now")
		}
	})
	for name, known := range map[string]string{"unknown": "", "known": "ValueError: " + lines[0]} {
		log := ""
		for n, line := range lines {
			if known != "" {
				line = lines[0]
			}
			log += []string{marks["f"], marks["g"]}[n%2] + "ERROR:root:" + line + "\n"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				SaidByWorkers(log, known, func(string) bool { return false }, false)
			}
		})
	}
}

// TestRankOfWorker: of a worker of Train the rank is told, if the log says which process was which; not of a process ID
// that two ranks had, on two nodes.
func TestRankOfWorker(t *testing.T) {
	const group = "\x1b[36m(TrainController pid=2)\x1b[0m - (ip=10.0.0.1, pid=%d) world_rank=%d, local_rank=0, node_rank=0\n"
	const line = "\x1b[36m(RayTrainWorker pid=12)\x1b[0m waiting for a token of the dataset server\n"
	for log, want := range map[string]string{
		fmt.Sprintf(group, 11, 0) + fmt.Sprintf(group, 12, 1) + line: "rank 1",
		fmt.Sprintf(group, 12, 0) + fmt.Sprintf(group, 12, 1) + line: "RayTrainWorker", line: "RayTrainWorker",
		fmt.Sprintf(group, 12, 0) + fmt.Sprintf(group, 12, 1) + fmt.Sprintf(group, 12, 2) + line: "RayTrainWorker", // three nodes
		fmt.Sprintf(group, 12, 1) + strings.Replace(line, "RayTrainWorker", "load", 1):           "load",           // on another node
	} {
		who, _, _ := SaidByWorkers(log, "", func(string) bool { return false }, false, AboutWaits)
		says.Equal(t, who, want, "%s", log)
	}
}

// TestSaidByRaylet: what worker processes printed before they had a job counts, and not what the raylet itself says.
func TestSaidByRaylet(t *testing.T) {
	const mark, noHome = "\x1b[33m(raylet)\x1b[0m ", "ModuleNotFoundError: No module named 'encodings'"
	for log, want := range map[string]string{
		mark + "Fatal Python error: init_fs_encoding: failed to get the Python codec\n" + mark + noHome + "\n" + mark + "\n" + mark + "  <no Python frame>\n":                                                               noHome,
		mark + "[2026-11-22 10:15:55,000 E 9 9] (raylet) node_manager.cc:3478: 4 Workers (tasks / actors) killed due to memory pressure\n":                                                                                  "",
		mark + "The node with node id: 12 has been marked dead because the detector has missed too many heartbeats from it. This can happen when a \n" + mark + "\t(1) raylet crashes unexpectedly (OOM, etc.) \n":          "",
		mark + "A worker died or was killed while executing a task by an unexpected system error.\n" + mark + "file_system_monitor.cc:116: /tmp/ray is over 95% full. Object creation will fail if spilling is required.\n": "",
		"\x1b[36m(f pid=7)\x1b[0m " + noHome + "\n": "", noHome + "\n": "",
	} {
		says.Equal(t, SaidByRaylet(log), want, "%s", log)
	}
}

// TestErrorFarAbove: an error far above the end of a long output counts, if a record of it has the level, in whatever
// form, and the last lines tell of none.
func TestErrorFarAbove(t *testing.T) {
	for record, info := range map[string]string{
		`{"part": 3, "event": "block 17 is torn", "level": "error"}`:            `{"event": "part is copied", "level": "info"}`,
		`{"level":"fatal","ts":1796055618.5,"msg":"block 17 is torn","part":3}`: `{"level":"info","ts":1796055618.5,"msg":"part is copied"}`,
		`ts=2026-11-22T10:15:05Z level=error msg="block 17 is torn" part=3`:     `ts=2026-11-22T10:15:05Z level=info msg="part is copied"`,
		"2026-11-22 10:15:05 CRITICAL block 17 is torn":                         "2026-11-22 10:15:05 INFO part is copied",
	} {
		lines := strings.Repeat(info+"\n", 3000)
		says.True(t, strings.Contains(LastWords(lines+record+"\n"+lines), "block 17 is torn"), "%s: %s", record,
			LastWords(lines+record+"\n"+lines))
		says.True(t, !strings.Contains(LastWords(lines+record+"\n"+lines+"index is empty\n"), "torn"),
			"a line of its own")
	}
}
