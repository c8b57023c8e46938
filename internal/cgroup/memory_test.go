package cgroup

import (
	"testing"
	"testing/fstest"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestMemoryLimit(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no groups": {nil, 0},
		"v2 in a container": {map[string]string{"proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "268435456\n"}, 256 << 20},
		"v2 without a limit": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		"v2, the pod's is less": {map[string]string{"proc/self/cgroup": "0::/kubepods/pod1/c1\n",
			"sys/fs/cgroup/kubepods/pod1/c1/memory.max": "max",
			"sys/fs/cgroup/kubepods/pod1/memory.max":    "1000", "sys/fs/cgroup/kubepods/memory.max": "2000"}, 1000},
		"v2, the host's path": {map[string]string{"proc/self/cgroup": "0::/kubepods/pod1/c1\n",
			"sys/fs/cgroup/memory.max": "3000"}, 3000},
		"v1": {map[string]string{"proc/self/cgroup": "12:cpu,cpuacct:/x\n4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "500",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":            "9223372036854771712"}, 500},
		"v1, the host's path": {map[string]string{"proc/self/cgroup": "4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "700"}, 700},
		"v1 without a limit": {map[string]string{"proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 0},
		"both, memory in v1": {map[string]string{"proc/self/cgroup": "4:memory:/a\n0::/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "800"}, 800},
		"no sense": {map[string]string{"proc/self/cgroup": "\n::\n0::\n0::../../x\n4:memory\n",
			"sys/fs/cgroup/memory.max": "many"}, 0},
		"a path that leads up": {map[string]string{"proc/self/cgroup": "0::/../../../x\n", "x/memory.max": "5",
			"sys/fs/cgroup/memory.max": "900"}, 900},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range test.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			says.Equal(t, MemoryLimit(root), test.want)
		})
	}
}
