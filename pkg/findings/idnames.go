package findings

import (
	"context"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// taskInText matches how Ray's messages name a task: by its ID alone.
var taskInText = lazyregexp.New(`(?:[Tt]ask: )?TaskID\(([0-9a-f]{48})\)`)

// withNames replaces the IDs of tasks in a text by the tasks' names. An ID that is not known stays.
func (b *builder) withNames(ctx context.Context, text string) string {
	if !strings.Contains(text, "TaskID(") {
		return text
	}
	return taskInText().ReplaceAllStringFunc(text, func(match string) string {
		id := taskInText().FindStringSubmatch(match)[1]
		found, err := b.s.Tasks.Select(tasktable.Query{
			Filters: []tasktable.Filter{{Key: "task_id", Value: id}}, Limit: 1, At: b.r.At, Stop: func() error { return context.Cause(ctx) },
		})
		if err != nil || len(found.Rows) == 0 {
			return match
		}
		row, err := found.Row(0)
		if err != nil || len(row.GivenName()) == 0 {
			return match
		}
		return "task " + string(row.GivenName())
	})
}
