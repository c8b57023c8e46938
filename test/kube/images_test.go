package kube_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// maxCollector bounds the collector's image, in bytes as unpacked.
const maxCollector = 30 << 20

// stages reads a Dockerfile as BuildKit does, with BuildKit's own checks as errors.
func stages(t *testing.T, name string) []instructions.Stage {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, name))
	must.OK(t, err)
	ast, err := parser.Parse(bytes.NewReader(data))
	must.OK(t, err)
	for _, w := range ast.Warnings {
		t.Errorf("%s: %s", name, w.Short)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) { t.Errorf("%s: %s: %s", name, rule, message) }})
	found, _, err := instructions.Parse(ast.AST, lint)
	must.OK(t, err)
	return found
}

func commands[T instructions.Command](s instructions.Stage) []T {
	var out []T
	for _, c := range s.Commands {
		if c, ok := c.(T); ok {
			out = append(out, c)
		}
	}
	return out
}

func TestDockerfiles(t *testing.T) {
	ignoreFile := must.Get(os.Open(filepath.Join(repository, ".dockerignore")))(t)
	defer func() { _ = ignoreFile.Close() }()
	patterns := must.Get(ignorefile.ReadAll(ignoreFile))(t)
	ignored := must.Get(patternmatcher.New(patterns))(t)
	for _, name := range []string{"collector", "historyserver"} {
		all := stages(t, "Dockerfile."+name)
		final := all[len(all)-1]
		if final.BaseName != "scratch" {
			t.Errorf("%s: the image is made from %s", name, final.BaseName)
		}
		if users := commands[*instructions.UserCommand](final); len(users) != 1 || users[0].User != "65532:65532" {
			t.Errorf("%s: users %v", name, users)
		}
		entry := commands[*instructions.EntrypointCommand](final)
		if len(entry) != 1 || entry[0].PrependShell || !slices.Equal(entry[0].CmdLine, []string{"/usr/local/bin/" + name}) {
			t.Errorf("%s: entry point %v", name, entry)
		}
		// KubeRay's manifests name the command without its folder.
		if env := commands[*instructions.EnvCommand](final); len(env) != 1 || env[0].Env[0].Key != "PATH" || env[0].Env[0].Value != "/usr/local/bin" {
			t.Errorf("%s: environment %v", name, env)
		}
		for _, s := range all[:len(all)-1] {
			if s.Platform != "$BUILDPLATFORM" {
				t.Errorf("%s: stage %s would be emulated on platform %q", name, s.Name, s.Platform)
			}
			for _, c := range commands[*instructions.CopyCommand](s) {
				for _, source := range c.SourcePaths {
					path := strings.TrimSuffix(source, "/")
					if _, err := os.Stat(filepath.Join(repository, path)); err != nil {
						t.Errorf("%s: %v", name, err)
					}
					if skip, err := ignored.MatchesOrParentMatches(path); skip || err != nil {
						t.Errorf("%s: .dockerignore keeps %s out (%v)", name, path, err)
					}
				}
			}
		}
	}
}

// The stages' own commands, run here into a folder, which is then run as the image would be: alone in it, as its user.
func TestImages(t *testing.T) {
	for _, tt := range []struct {
		name  string
		check []string // arguments that must work without anything else in the image
		max   int64
	}{
		{"collector", []string{"inject", "--help"}, maxCollector},
		{"historyserver", []string{"webhook", "--help"}, 0},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			t.Run(tt.name+"/"+arch, func(t *testing.T) {
				root := t.TempDir()
				all := stages(t, "Dockerfile."+tt.name)
				for _, s := range all[:len(all)-1] {
					runStage(t, s, root, arch)
				}
				binary := filepath.Join(root, "usr/local/bin", tt.name)
				info := must.Get(os.Stat(binary))(t)
				size := folderSize(t, root)
				t.Logf("%s for %s: %.1f MB, of it the binary %.1f MB", tt.name, arch, float64(size)/1e6, float64(info.Size())/1e6)
				if tt.max > 0 && size > tt.max {
					t.Errorf("the image has %d bytes, more than %d", size, tt.max)
				}
				if out, err := exec.Command("file", "-b", binary).Output(); err == nil && !bytes.Contains(out, []byte("statically linked")) {
					t.Errorf("not static: %s", out)
				}
				if arch != "amd64" {
					return // another processor's
				}
				for _, args := range [][]string{{"--version"}, tt.check} {
					cmd := exec.Command("unshare", append([]string{"--mount", "--net", "chroot", "--userspec=65532:65532", root, "/usr/local/bin/" + tt.name}, args...)...)
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Errorf("%s %v: %v\n%s", tt.name, args, err, out)
					}
				}
			})
		}
	}
}

// runStage runs a stage's commands with /rootfs and its scripts where they are here.
func runStage(t *testing.T, s instructions.Stage, root, arch string) {
	t.Helper()
	env := append(os.Environ(), "TARGETOS=linux", "TARGETARCH="+arch, "VERSION=test")
	for _, a := range commands[*instructions.ArgCommand](s) {
		for _, kv := range a.Args {
			if kv.Value != nil && kv.Key != "VERSION" && kv.Key != "TARGETOS" {
				env = append(env, kv.Key+"="+strings.Trim(*kv.Value, `"`))
			}
		}
	}
	for _, c := range commands[*instructions.RunCommand](s) {
		line := strings.Join(c.CmdLine, " ")
		if strings.Contains(line, "dashboard.sh") {
			takeDashboards(t, root)
		}
		line = strings.NewReplacer(" /rootfs", " "+root, " /scripts/", " scripts/").Replace(line)
		if strings.HasPrefix(line, "go mod download") {
			continue // the versions are here
		}
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env = repository, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

// takeDashboards saves downloading what `make dashboard` has: the script leaves a build alone that is there.
func takeDashboards(t *testing.T, root string) {
	t.Helper()
	have := must.Get(filepath.Glob(filepath.Join(repository, "build/dashboard/v*")))(t)
	to := filepath.Join(root, "dashboard")
	must.OK(t, os.MkdirAll(to, 0o755))
	for _, dir := range have {
		if out, err := exec.Command("cp", "-r", dir, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

func folderSize(t *testing.T, dir string) (size int64) {
	t.Helper()
	out, err := exec.Command("du", "-sb", dir).Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &size)
	}
	must.OK(t, err)
	return size
}
