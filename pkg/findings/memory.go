package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

var (
	// nodeMemory matches what Ray's memory monitor says of the node, in GB; before Ray 2.56 without "used".
	nodeMemory = lazyregexp.New(`was ([\d.]{1,12})GB(?: used)? / ([\d.]{1,12})GB`)
	// killedMemory matches what it says of a process that it killed: the task that ran in it and its GB.
	killedMemory = lazyregexp.New(`(?:Selected to kill: \([^\n]{0,400}?task name=([^,\n]{1,200}),[^\n]{0,400}?actual |name=([^,\n]{1,200}), pid=\d+, )memory used=([\d.]{1,12})GB`)
	// topMemory matches the process that used most of the node's memory.
	topMemory = lazyregexp.New(`Top 10 memory users: PID\s+MEM\(GB\)\s+COMMAND\s+\d+\s+([\d.]{1,12})\s+([^\n]{1,300})`)
)

// outOfMemory returns the finding about workers of a job that were killed because one node ran out of memory. said is Ray's message about it.
func (b *builder) outOfMemory(job rayid.Job, node rayid.Node, name, said string) *finding {
	f := b.find(OutOfMemory, job.String()+rayid.Hex(node))
	f.addName(name)
	f.addEntity(b.nodeEntity(node))
	if f.memory == "" {
		f.memory = b.memoryIn(said, job, f)
	}
	return f
}

// memoryIn returns what a message of the memory monitor says of amounts, as a title ends; "" if it says nothing.
func (b *builder) memoryIn(said string, job rayid.Job, f *finding) string {
	said = output.Clip(said, maxMemoryText)
	m := nodeMemory().FindStringSubmatch(said)
	if m == nil {
		return ""
	}
	text := fmt.Sprintf("%s of %s GB were used", m[1], m[2])
	if all := killedMemory().FindAllStringSubmatch(said, -1); all != nil { // since Ray 2.56 several may be killed at once
		gb := func(k []string) float64 { n, _ := strconv.ParseFloat(k[3], 64); return n }
		k := slices.MaxFunc(all, func(x, y []string) int { return cmp.Compare(gb(x), gb(y)) })
		text += fmt.Sprintf(", %s GB of it by %s", k[3], b.known(k[1]+k[2], job))
	}
	top := topMemory().FindStringSubmatch(said)
	if top == nil {
		return text
	}
	command, ofTask := strings.CutPrefix(strings.TrimSpace(top[2]), "ray::")
	command = b.known(command, job)
	if !strings.Contains(text, command) && (!ofTask || !slices.ContainsFunc(f.names, func(n string) bool { return strings.HasPrefix(command, n) })) {
		return text + fmt.Sprintf("; the largest process was %s with %s GB", output.Clip(command, maxCommand), top[1])
	}
	if !strings.Contains(text, "GB of it") {
		text += fmt.Sprintf(", %s GB of it by %s", top[1], output.Clip(command, maxCommand))
	}
	return text
}

const (
	maxMemoryText = 16 << 10 // bytes of a message about memory that are looked at
	maxCommand    = 80       // bytes of a process's command in a title
)

// memoryTitle returns the title of a finding about memory that ran out.
func (f *finding) memoryTitle() string {
	title := fmt.Sprintf("%s ran out of memory: Ray's memory monitor killed its process", quoted(f.names))
	if f.Count > 1 {
		title += fmt.Sprintf(" %d times", f.Count)
	}
	if i := slices.IndexFunc(f.Entities, func(e Entity) bool { return e.Type == "node" }); i >= 0 {
		title += " on node " + f.Entities[i].Name
	}
	if f.memory != "" {
		title += " (" + f.memory + ")"
	}
	return title
}
