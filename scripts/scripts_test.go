// Package scripts_test tests the scripts, and what images are made of.
package scripts_test

import (
	"archive/zip"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
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
				says.True(t, err != nil && strings.Contains(string(out), test.fail) && len(got) == 0 && len(built) == 0,
					"%v, %s, asked pip for %q, built %v", err, out, got, built)
				return
			}
			says.True(t, err == nil && regexp.MustCompile(test.asked).Match(got) && len(built) == 1,
				"%v, %s, asked pip for %q, built %v", err, out, got, built)
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
				says.True(t, byDigest.MatchString(line), "%s: %s has no digest", name, line)
				if strings.HasPrefix(line, "ARG GO_IMAGE") {
					goImages[line] = true
				}
			case strings.HasPrefix(line, "FROM "):
				froms++
				says.True(t, line == "FROM scratch" || strings.Contains(line, "_IMAGE} "),
					"%s: %s is not one of the images above", name, line)
			}
		}
		says.True(t, froms >= 2, "%s: %d stages", name, froms)
	}
	says.Equal(t, len(goImages), 1, "the binaries are built by different compilers: %v", goImages)
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
	write := func(name, text string) { must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755)) }
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

// TestTestsFilesAreInTestTmp: where tests keep files is TEST_TMP, also if the user has named a folder for Go's.
func TestTestsFilesAreInTestTmp(t *testing.T) {
	dir := t.TempDir()
	fakeGo := "#!/bin/sh\n[ $1 = list ] && echo ./pkg || echo GOTMPDIR=$GOTMPDIR TMPDIR=$TMPDIR\n"
	must.OK(t, os.WriteFile(filepath.Join(dir, "go"), []byte(fakeGo), 0o755))
	run := exec.Command("make", "-s", "-C", "..", "test-others", "GO="+filepath.Join(dir, "go"), "TEST_TMP="+dir)
	run.Env = append(os.Environ(), "MAKEFLAGS=", "GOTMPDIR=/elsewhere", "TMPDIR=/elsewhere")
	out := must.Get(run.Output())(t)
	want := "GOTMPDIR= TMPDIR=" + dir + "\n"
	says.True(t, string(out) == want, "tests run with %swant %s", out, want)
}

// TestModulesUseSameVersions: the test modules require the versions of the product's module. Otherwise tests run other
// code than users do, and Go and staticcheck compile everything above such a dependency once for each version.
func TestModulesUseSameVersions(t *testing.T) {
	product := versions(t, "go.mod")
	for _, path := range []string{"test/go.mod", "test/kube/go.mod", "test/release/go.mod"} {
		for module, of := range versions(t, path) {
			if want, shared := product[module]; shared && of != want {
				t.Errorf("%s requires %s %s, but go.mod %s: use the newer one in both", path, module, of, want)
			}
		}
	}
}

// TestOneGo: images are built by the version of Go that the workflows test and release with, which every module allows.
func TestOneGo(t *testing.T) {
	images := slices.Compact(find(t, `golang:([\d.]+)`, "Dockerfile.*"))
	setUp := find(t, `go-version-file: (\S+)`, ".github/workflows/*.yml")
	must.True(t, len(images) == 1 && len(setUp) == 2, "Go in the Dockerfiles: %v; from where in workflows: %v", images,
		setUp)
	for _, path := range append(setUp, "go.mod", "test/go.mod", "test/tools/go.mod") {
		switch used := module(t, path).Go.Version; {
		case slices.Contains(setUp, path) && used != images[0]:
			t.Errorf("workflows use Go %s of %s, images Go %s", used, path, images[0])
		case version.Compare("go"+used, "go"+images[0]) > 0:
			t.Errorf("%s needs Go %s, images are built by %s", path, used, images[0])
		}
	}
}

// TestBuildsAgree: what stands in the Makefile and elsewhere too is the same there.
func TestBuildsAgree(t *testing.T) {
	for what, places := range map[string]map[string]string{ // files → pattern
		"the tags of builds": {"Makefile": `GO_TAGS +:= (\S+)`, "Dockerfile.collector": `ARG GO_TAGS=(\S+)`,
			"Dockerfile.historyserver": `ARG GO_TAGS=(\S+)`},
		"the Ray versions of images": {"Makefile": `RAY_VERSIONS \?= (.+)`,
			"Dockerfile.historyserver": `ARG RAY_VERSIONS="(.+)"`},
		"the version": {"Makefile": `IMAGE_TAG +\?= (\S+)`, "config/helm/Chart.yaml": `(?m)^(?:appV|v)ersion: (\S+)`,
			"pkg/kubernetes/inject/options.go": `defaultImage = "collector:(.+)"`},
	} {
		values := map[string][]string{} // value → files
		for file, pattern := range places {
			found := find(t, pattern, file)
			says.True(t, len(found) != 0, "%s does not say %s", file, what)
			for _, value := range found {
				value = strings.TrimPrefix(value, "v")
				values[value] = append(values[value], file)
			}
		}
		says.Equal(t, len(values), 1, "%s differ: %v", what, values)
	}
}

// find returns what the first group of a pattern matches in files, by their paths in the repository.
func find(t *testing.T, pattern, files string) (found []string) {
	t.Helper()
	for _, path := range must.Get(filepath.Glob(filepath.Join("..", files)))(t) {
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(must.Get(os.ReadFile(path))(t), -1) {
			found = append(found, string(match[1]))
		}
	}
	return found
}

// versions returns what a go.mod requires: module → version.
func versions(t *testing.T, path string) map[string]string {
	t.Helper()
	file := module(t, path)
	required := make(map[string]string, len(file.Require))
	for _, r := range file.Require {
		required[r.Mod.Path] = r.Mod.Version
	}
	return required
}

func module(t *testing.T, path string) *modfile.File {
	t.Helper()
	return must.Get(modfile.Parse(path, must.Get(os.ReadFile(filepath.Join("..", path)))(t), nil))(t)
}
