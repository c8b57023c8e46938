package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/collector/node"
)

// defaultSpool is the name of the spool's folder in Ray's temporary folder, unless --spool-dir names another one.
const defaultSpool = ".rayhistory"

// useFolder sets Ray's temporary folder (RayTmpDir) and, unless --spool-dir names one, the spool's folder in it
// (SpoolDir).
func (o *options) useFolder(folder string) {
	if o.SpoolDir == "" || o.SpoolDir == filepath.Join(o.RayTmpDir, defaultSpool) {
		o.SpoolDir = filepath.Join(folder, defaultSpool)
	}
	o.RayTmpDir = folder
}

// chooseFolder uses the one of a worker's two possible temporary folders of Ray that has the latest session. Which one
// Ray uses depends on the head and on Ray's version, so manifests may name both. The error is a NoRayError while
// neither has a session.
func (o *options) chooseFolder() error {
	if o.rayHeadTmpDir == "" || o.rayHeadTmpDir == o.RayTmpDir {
		return nil
	}
	own, heads := latestSession(o.RayTmpDir), latestSession(o.rayHeadTmpDir)
	switch {
	case own == "" && heads == "":
		return &collector.NoRayError{Folder: o.RayTmpDir + " or " + o.rayHeadTmpDir}
	case heads > own: // names of sessions are in the order of their times
		o.useFolder(o.rayHeadTmpDir)
	}
	return nil
}

// latestSession is the name of the latest session in a folder of Ray's; "" if there is none. Names of sessions begin
// with their time, so the latest is the last in order.
func latestSession(folder string) string {
	dir, err := os.Open(folder)
	if err != nil {
		return ""
	}
	defer func() { _ = dir.Close() }()
	names, _, _ := regular.Last(dir, 1, func(e fs.DirEntry) bool {
		return e.IsDir() && node.IsSession(e.Name())
	})
	return strings.Join(names, "")
}
