package main

import (
	"os"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestDockerfiles: what container engines ask beyond what a release needs. No stage is emulated, and .dockerignore
// keeps nothing out that is copied.
func TestDockerfiles(t *testing.T) {
	t.Chdir("../..")
	patterns := must.Get(ignorefile.ReadAll(strings.NewReader(read(t, ".dockerignore"))))(t)
	ignored := must.Get(patternmatcher.New(patterns))(t)
	for _, name := range programs {
		file := must.Get(readDockerfile("Dockerfile." + name))(t)
		for _, s := range file.stages[:len(file.stages)-1] {
			if s.Platform != "$BUILDPLATFORM" {
				t.Errorf("%s: stage %s would be emulated on platform %q", name, s.Name, s.Platform)
			}
			for _, c := range commands[*instructions.CopyCommand](s) {
				for _, source := range c.SourcePaths {
					path := strings.TrimSuffix(source, "/")
					if _, err := os.Stat(path); err != nil {
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
