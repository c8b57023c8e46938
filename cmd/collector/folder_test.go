package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/collector"
)

// TestChooseFolder: of two folders the one with Ray's latest session is Ray's, and the spool follows it.
func TestChooseFolder(t *testing.T) {
	const early, late = "session_2026-11-25_01-00-00_000001_1", "session_2026-11-25_02-00-00_000001_1"
	for name, tt := range map[string]struct {
		made  []string // below the folders a and b
		spool string
		want  string // empty: not yet
	}{
		"nothing":               {},
		"empty folders":         {made: []string{"a", "b"}},
		"first":                 {made: []string{"a/" + early}, want: "a"},
		"second":                {made: []string{"a", "b/" + early}, want: "b"},
		"the latest":            {made: []string{"a/" + early, "b/" + late}, want: "b"},
		"the latest, the other": {made: []string{"a/" + late, "b/" + early}, want: "a"},
		"no session":            {made: []string{"a/session_latest", "a/spill", "b/" + early}, want: "b"},
		"a spool of its own":    {made: []string{"b/" + early}, spool: "/spool", want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, m := range tt.made {
				must.OK(t, os.MkdirAll(filepath.Join(dir, m), 0o755))
			}
			args := []string{"--ray-cluster-name=c", "--ray-tmp-dir=" + filepath.Join(dir, "a"),
				"--ray-head-tmp-dir=" + filepath.Join(dir, "b")}
			if tt.spool != "" {
				args = append(args, "--spool-dir="+tt.spool)
			}
			o, _, err := read(args, nil)
			must.OK(t, err)
			err = o.chooseFolder()
			var none *collector.NoRayError
			if tt.want == "" {
				if !errors.As(err, &none) {
					t.Errorf("%v, want a NoRayError", err)
				}
				return
			}
			folder := filepath.Join(dir, tt.want)
			spool := filepath.Join(folder, defaultSpool)
			if tt.spool != "" {
				spool = tt.spool
			}
			if err != nil || o.RayTmpDir != folder || o.SpoolDir != spool {
				t.Errorf("%v, folder %s, spool %s; want %s, %s", err, o.RayTmpDir, o.SpoolDir, folder, spool)
			}
		})
	}
}

// TestOneFolder: a single folder is Ray's even before Ray has made it.
func TestOneFolder(t *testing.T) {
	for name, tt := range map[string]struct {
		args, env []string
		want      string
	}{
		"default":  {want: "/tmp/ray"},
		"flag":     {args: []string{"--ray-tmp-dir=/x"}, want: "/x"},
		"variable": {env: []string{"RAY_TMP_ROOT=/y"}, want: "/y"},
	} {
		o, _, err := read(append(tt.args, "--ray-cluster-name=c"), tt.env)
		if err == nil {
			err = o.chooseFolder()
		}
		if err != nil || o.RayTmpDir != tt.want || o.SpoolDir != filepath.Join(tt.want, defaultSpool) {
			t.Errorf("%s: %v, %s, %s", name, err, o.RayTmpDir, o.SpoolDir)
		}
	}
}
