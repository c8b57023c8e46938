package main

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// changelog is what the history says of the version: the commits since the version before, by their subjects' first
// words ("Findings: …") where three have the same.
func changelog(version string) (string, error) {
	commits := "HEAD"
	if before, err := git("describe", "--tags", "--abbrev=0", "--match=v*", "--exclude="+version); err == nil {
		commits = before + "..HEAD"
	}
	log, err := git("log", "--no-merges", "--reverse", "--format=%s", commits)
	if err != nil {
		return "", err
	}
	changes := map[string][]string{}
	for line := range strings.Lines(log) {
		area, _, _ := strings.Cut(line, ": ")
		changes[area] = append(changes[area], strings.TrimSpace(line))
	}
	const other = "Other"
	for area, lines := range changes {
		if len(lines) < 3 && area != other {
			changes[other] = append(changes[other], lines...)
			delete(changes, area)
		}
	}
	slices.Sort(changes[other]) // a map has no order
	out := &strings.Builder{}
	fmt.Fprintf(out, "# %s\n", version)
	for _, area := range slices.Sorted(maps.Keys(changes)) {
		fmt.Fprintf(out, "\n## %s\n", area)
		for _, change := range changes[area] {
			fmt.Fprintf(out, "- %s\n", strings.TrimPrefix(change, area+": "))
		}
	}
	return out.String(), nil
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
