package main

import (
	"os"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// TestDockerfiles: what container engines ask beyond what a release needs. No stage is emulated, and .dockerignore
// keeps nothing out that is copied.
func TestDockerfiles(t *testing.T) {
	t.Chdir("../..")
	patterns, err := ignorefile.ReadAll(strings.NewReader(read(t, ".dockerignore")))
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		file, err := readDockerfile("Dockerfile." + name)
		if err != nil {
			t.Fatal(err)
		}
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
