// Package cgroup reads the memory limit that the kernel sets for a container.
package cgroup

import (
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// MemoryLimit returns the lowest memory limit, in bytes, of this process's control group and of those around it, as far
// as they can be seen; 0 if there is none. root is the file system's root.
//
// /proc/self/cgroup says which group it is (man cgroups(7)): a line "0::/path" for version 2, "4:memory:/path" for
// version 1. In a container the path may be the host's, which is not mounted there; then the container's own group is
// what is mounted.
func MemoryLimit(root fs.FS) int64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		dir, file := "", ""
		switch {
		case parts[0] == "0" && parts[1] == "":
			dir, file = "sys/fs/cgroup", "memory.max"
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			dir, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			if limit := readLimit(root, path.Join(dir, group, file)); limit > 0 {
				least = min(least, limit)
			}
			if group == "/" {
				break
			}
		}
	}
	// Version 1 has a number near the largest for no limit.
	if least >= 1<<60 {
		return 0
	}
	return least
}

// readLimit reads one limit; 0 where there is none.
func readLimit(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit < 0 { // "max"
		return 0
	}
	return limit
}
