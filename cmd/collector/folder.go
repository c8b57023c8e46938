package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/collector"
)

// defaultSpool is the spool's folder in Ray's temporary folder, where --spool-dir names none.
const defaultSpool = ".rayhistory"

// useFolder sets Ray's temporary folder, and with it the spool's unless --spool-dir names that.
func (o *options) useFolder(folder string) {
	if o.SpoolDir == "" || o.SpoolDir == filepath.Join(o.RayTmpDir, defaultSpool) {
		o.SpoolDir = filepath.Join(folder, defaultSpool)
	}
	o.RayTmpDir = folder
}

// chooseFolder finds out which of a worker's two possible folders is Ray's, and uses it: the one with the latest
// session. Which one a worker uses depends on its head and on Ray's version, so a manifest may not tell. The error is a
// NoRayError until Ray has made a session.
func (o *options) chooseFolder() error {
	if o.rayHeadTmpDir == "" || o.rayHeadTmpDir == o.RayTmpDir {
		return nil
	}
	own, heads := latestSession(o.RayTmpDir), latestSession(o.rayHeadTmpDir)
	switch {
	case own == "" && heads == "":
		return &collector.NoRayError{Folder: o.RayTmpDir + " or " + o.rayHeadTmpDir}
	case heads > own:
		o.useFolder(o.rayHeadTmpDir)
	}
	return nil
}

// latestSession is the name of the latest session in a folder, whose names begin with their time; "" if there is none.
func latestSession(folder string) string {
	dir, err := os.Open(folder)
	if err != nil {
		return ""
	}
	defer func() { _ = dir.Close() }()
	names, _, _ := regular.Last(dir, 1, func(e fs.DirEntry) bool {
		return e.IsDir() && strings.HasPrefix(e.Name(), "session_2")
	})
	return strings.Join(names, "")
}
