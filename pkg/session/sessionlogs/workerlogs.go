package sessionlogs

import (
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// WorkerLogs returns the paths of the workers' logs without the file extension.
func (l *Set) WorkerLogs() map[rayid.Worker]string {
	files := make(map[rayid.Worker]string)
	for _, node := range l.Nodes() {
		for _, path := range l.Paths(node) {
			name, isWorker := strings.CutPrefix(path, "worker-")
			base, isOut := strings.CutSuffix(path, ".out")
			id, _, _ := strings.Cut(name, "-")
			if !isWorker || !isOut {
				continue
			}
			if worker, err := rayid.Parse[rayid.Worker](id); err == nil {
				files[worker] = base
			}
		}
	}
	return files
}
