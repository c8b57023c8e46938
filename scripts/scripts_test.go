// Package scripts_test tests the scripts, and what images are made of.
package scripts_test

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// fakePython is a Python whose pip tells what it was asked for and gives the wheel in $WHEEL; everything else is the
// real one's.
const fakePython = `#!/bin/sh
if [ "$1 $2" != "-m pip" ]; then exec "$PYTHON" "$@"; fi
shift 2
[ "$1" != --version ] || exit 0
echo "$*" >>"$ASKED"
while [ $# -gt 0 ]; do
	case $1 in
	--dest) cp "$WHEEL" "$2/ray-0-py3.whl"; shift ;;
	--requirement) cat "$2" >>"$ASKED"; shift ;;
	esac
	shift
done
`

// TestDashboardIsTakenByHash: a wheel is downloaded by the hash that is written down, or because somebody says that it
// may have any.
func TestDashboardIsTakenByHash(t *testing.T) {
	python := must.Get(exec.LookPath("python3"))(t)
	bin := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(bin, "python3"), []byte(fakePython), 0o755))
	wheel := filepath.Join(bin, "wheel")
	file := must.Get(os.Create(wheel))(t)
	archive := zip.NewWriter(file)
	must.Get(archive.Create("ray/dashboard/client/build/index.html"))(t)
	must.OK(t, archive.Close())
	_ = file.Close()
	for name, test := range map[string]struct {
		args        []string
		asked, fail string
	}{
		"a version with a hash": {args: []string{"2.60.0"},
			asked: `--require-hashes(?s:.*)ray==2\.60\.0 --hash=sha256:[0-9a-f]{64}\n$`},
		"an old one": {args: []string{"2.55.1"},
			asked: `--require-hashes(?s:.*)ray==2\.55\.1 --hash=sha256:[0-9a-f]{64}\n$`},
		"a hash is heeded all the same": {args: []string{"--without-hash", "2.57.0"},
			asked: `--require-hashes(?s:.*)ray==2\.57\.0 --hash=sha256:[0-9a-f]{64}\n$`},
		"a version without":            {args: []string{"9.9.9"}, fail: "--without-hash"},
		"a part of a version":          {args: []string{"2.6"}, fail: "is not known"},
		"a pattern":                    {args: []string{"2.60.."}, fail: "is not known"},
		"a version without, asked for": {args: []string{"--without-hash", "9.9.9"}, asked: ` ray==9\.9\.9\n$`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			asked := filepath.Join(t.TempDir(), "asked")
			cmd := exec.Command("./dashboard.sh", append(test.args, dir)...)
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PYTHON="+python, "ASKED="+asked,
				"WHEEL="+wheel)
			out, err := cmd.CombinedOutput()
			got, _ := os.ReadFile(asked)
			built, _ := filepath.Glob(filepath.Join(dir, "v*", "index.html"))
			if test.fail != "" {
				if err == nil || !strings.Contains(string(out), test.fail) || len(got) != 0 || len(built) != 0 {
					t.Errorf("%v, %s, asked pip for %q, built %v", err, out, got, built)
				}
				return
			}
			if err != nil || !regexp.MustCompile(test.asked).Match(got) || len(built) != 1 {
				t.Errorf("%v, %s, asked pip for %q, built %v", err, out, got, built)
			}
		})
	}
}

// TestImagesAreMadeByDigest: what runs in the build is what was looked at, not what a tag leads to by then.
func TestImagesAreMadeByDigest(t *testing.T) {
	byDigest := regexp.MustCompile(`^ARG [A-Z]+_IMAGE=\S+:\S+@sha256:[0-9a-f]{64}$`)
	goImages := map[string]bool{}
	for _, name := range []string{"collector", "historyserver"} {
		data := must.Get(os.ReadFile("../Dockerfile." + name))(t)
		froms := 0
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(line, "# syntax="):
				t.Errorf("%s: %s is one more image", name, line)
			case strings.Contains(line, "_IMAGE="):
				if !byDigest.MatchString(line) {
					t.Errorf("%s: %s has no digest", name, line)
				}
				if strings.HasPrefix(line, "ARG GO_IMAGE") {
					goImages[line] = true
				}
			case strings.HasPrefix(line, "FROM "):
				froms++
				if line != "FROM scratch" && !strings.Contains(line, "_IMAGE} ") {
					t.Errorf("%s: %s is not one of the images above", name, line)
				}
			}
		}
		if froms < 2 {
			t.Errorf("%s: %d stages", name, froms)
		}
	}
	if len(goImages) != 1 {
		t.Errorf("the binaries are built by different compilers: %v", goImages)
	}
}

// fakeGo builds a test binary that prints $OUTPUT and fails if that says so.
const fakeGo = `#!/bin/sh
case $1 in
env | list) echo "$PWD"; exit ;;
esac
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\nprintf "%%s\\n" "$OUTPUT"\ncase $OUTPUT in *FAIL*) exit 1 ;; esac\n' >"$2"
chmod +x "$2"
`

// TestFuzzFindings: a target that Go fails because its time is over has found nothing; every other failure is one.
func TestFuzzFindings(t *testing.T) {
	script := must.Get(filepath.Abs("fuzz.sh"))(t)
	dir := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(dir, "pkg", "x"), 0o755))
	must.OK(t, os.Mkdir(filepath.Join(dir, "internal"), 0o755))
	write := func(name, text string) {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	write("pkg/x/x_test.go", "package x\n\nfunc FuzzX(f *testing.F) {}\n")
	write("go", fakeGo)
	const progress = "fuzz: elapsed: 6s, execs: 226 (0/sec), new interesting: 1 (total: 70)\n"
	for name, test := range map[string]struct {
		output string
		fails  bool
	}{
		"nothing found":     {output: progress + "PASS"},
		"the time was over": {output: progress + "--- FAIL: FuzzX (8.17s)\n    context deadline exceeded\nFAIL"},
		"an input that fails": {output: progress +
			"--- FAIL: FuzzX (0.02s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: wrong\n    \n    Failing input written to testdata/fuzz/FuzzX/5d\nFAIL", fails: true},
		"an input that takes too long": {
			output: "--- FAIL: FuzzX (0.02s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: load: context deadline exceeded\n    Failing input written to testdata/fuzz/FuzzX/5d\nFAIL", fails: true,
		},
		"a seed that fails": {output: "--- FAIL: FuzzX (0.02s)\n    context deadline exceeded\n    x_test.go:9: wrong\nFAIL", fails: true},
		"a panic":           {output: "panic: wrong\nFAIL", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			run := exec.Command(script, "1s")
			run.Dir = dir
			run.Env = append(os.Environ(), "GO="+filepath.Join(dir, "go"), "OUTPUT="+test.output)
			if out, err := run.CombinedOutput(); (err != nil) != test.fails {
				t.Errorf("the script ended with %v, want a failure: %v\n%s", err, test.fails, out)
			}
		})
	}
}
