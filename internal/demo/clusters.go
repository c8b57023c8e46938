package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/play"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// casesNamespace is the namespace of the clusters that addClusters adds.
const casesNamespace = "cases"

// addClusters adds, below data, what collectors stored of other recorded clusters: most of them failed, some have
// metrics.
func addClusters(data string) error {
	archives, err := recording.Stored()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	for _, archive := range archives {
		if err := recording.Unpack(archive, data); err != nil {
			return err
		}
	}
	say("%d more recorded clusters", len(archives))
	return nil
}

// showRunning makes the sessions of a recorded cluster look like running ones: it removes their end markers, and gives
// their files the present time.
func showRunning(data, cluster string) error {
	root := filepath.Join(data, layout.DefaultRoot)
	folder := cluster + "_" + casesNamespace
	sessions, err := os.ReadDir(filepath.Join(root, "metadir", folder))
	if err != nil {
		return err
	}
	for _, s := range sessions {
		ref := layout.Session{Namespace: casesNamespace, Cluster: cluster, Name: s.Name()}
		if err := os.Remove(filepath.Join(data,
			filepath.FromSlash(layout.MetadataKey(layout.DefaultRoot, ref, layout.End)))); err != nil {
			return err
		}
	}
	return play.StoredAt(filepath.Join(root, folder), time.Now())
}

// index has the findings of all sessions kept, so that the list knows how they ended and why though nobody opened them.
func index(ctx context.Context, binary, data string) error {
	say("finding out how all sessions ended")
	c := exec.CommandContext(ctx, binary, "index", "--all", "--storage-backend", "local", "--local-dir", data)
	lines, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err
	}
	var all []string // a line for each session
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		if all = append(all, scanner.Text()); len(all)%50 == 0 {
			say("%s", scanner.Text())
		}
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("historyserver index: %w\n%s", err, strings.Join(all, "\n"))
	}
	say("indexed")
	return nil
}
