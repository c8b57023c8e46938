package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// dockerfile is what one of our Dockerfiles says. Its stages' commands run here, without a container engine, so that a
// release has the same files.
type dockerfile struct {
	goVersion string // of the image that it builds in
	stages    []instructions.Stage
}

// readDockerfile reads a Dockerfile as BuildKit does, with BuildKit's own checks as errors.
func readDockerfile(path string) (*dockerfile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	ast, err := parser.Parse(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var warnings []string
	for _, w := range ast.Warnings {
		warnings = append(warnings, w.Short)
	}
	warn := func(rule, _, _, message string, _ []parser.Range) { warnings = append(warnings, rule+": "+message) }
	stages, args, err := instructions.Parse(ast.AST, linter.New(&linter.Config{Warn: warn}))
	if err == nil && len(warnings) > 0 {
		err = fmt.Errorf("BuildKit warns: %s", strings.Join(warnings, "; "))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d := &dockerfile{stages: stages}
	for _, a := range args {
		for _, kv := range a.Args {
			if kv.Key == "GO_IMAGE" && kv.Value != nil {
				_, tag, _ := strings.Cut(*kv.Value, ":")
				d.goVersion, _, _ = strings.Cut(tag, "@")
			}
		}
	}
	if d.goVersion == "" {
		return nil, fmt.Errorf("%s: no ARG GO_IMAGE=golang:VERSION@DIGEST before the first stage", path)
	}
	return d, nil
}

func commands[T instructions.Command](s instructions.Stage) (list []T) {
	for _, c := range s.Commands {
		if c, ok := c.(T); ok {
			list = append(list, c)
		}
	}
	return list
}

// variables are those that a stage declares, with the values of args or else its own.
func variables(s instructions.Stage, args map[string]string) map[string]string {
	found := map[string]string{}
	for _, a := range commands[*instructions.ArgCommand](s) {
		for _, kv := range a.Args {
			if value, ok := args[kv.Key]; ok {
				found[kv.Key] = value
			} else if kv.Value != nil {
				found[kv.Key] = strings.Trim(*kv.Value, `"`)
			}
		}
	}
	return found
}

// run runs a stage's commands with root instead of /rootfs, in the working folder, which is
// the repository.
func (d *dockerfile) run(s instructions.Stage, root string, args map[string]string) error {
	// Another compiler makes other binaries, and the build in an image sees no .git.
	env := append(os.Environ(), "GOTOOLCHAIN=go"+d.goVersion, "GOWORK=off", "GOFLAGS=-buildvcs=false")
	for variable, value := range variables(s, args) {
		env = append(env, variable+"="+value)
	}
	for _, c := range commands[*instructions.RunCommand](s) {
		line := strings.Join(c.CmdLine, " ")
		if line == "go mod download" {
			continue // a layer of Docker's cache: the build downloads what it needs
		}
		here := strings.NewReplacer(" /rootfs", " "+root, " /scripts/", " scripts/")
		cmd := exec.Command("sh", "-c", here.Replace(line))
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", line, err, out)
		}
	}
	return nil
}

// final is what the last stage makes of the others: the stages whose /rootfs it takes, in this order, and the image's
// settings.
func (d *dockerfile) final() (from []string, settings settings, err error) {
	last := d.stages[len(d.stages)-1]
	if last.BaseName != "scratch" {
		return nil, settings, fmt.Errorf("the image is made from %s: only scratch is understood", last.BaseName)
	}
	for _, c := range last.Commands {
		switch c := c.(type) {
		case *instructions.CopyCommand:
			if len(c.SourcePaths) != 1 || c.SourcePaths[0] != "/rootfs/" || c.DestPath != "/" {
				return nil, settings, fmt.Errorf("%s: only COPY --from=STAGE /rootfs/ / is understood", c)
			}
			from = append(from, c.From)
		case *instructions.EnvCommand:
			for _, kv := range c.Env {
				settings.Env = append(settings.Env, kv.Key+"="+kv.Value)
			}
		case *instructions.UserCommand:
			settings.User = c.User
		case *instructions.ExposeCommand:
			settings.ExposedPorts = map[string]struct{}{}
			for _, port := range c.Ports {
				settings.ExposedPorts[port+"/tcp"] = struct{}{}
			}
		case *instructions.EntrypointCommand:
			if c.PrependShell {
				return nil, settings, fmt.Errorf("%s: the image has no shell", c)
			}
			settings.Entrypoint = c.CmdLine
		default:
			return nil, settings, fmt.Errorf("%s: not understood in the last stage", c.Name())
		}
	}
	return from, settings, nil
}

// setTimes gives all files one time: what is the same is then packed the same.
func setTimes(root string, at time.Time) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, at, at)
	})
}
