package compare

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// Setting is something that was set differently for the two sides, such as the Ray version, the nodes of a group or a
// part of a job's runtime environment. A side is "" where it is not set, or not known.
type Setting struct {
	Name    string `json:"name"`
	Session string `json:"session"`
	With    string `json:"with"`
}

const (
	maxSettings = 2000 // of a side
	maxJobs     = 200  // whose settings are compared, the latest
	maxDepth    = 8    // of a runtime environment; what is deeper is one value
)

// secretField is the part of a runtime environment that has secrets.
const secretField = "env_vars"

// value is what something was set to. A secret is compared, and not shown.
type value struct {
	text   string
	secret bool
}

// redacted returns the text of a value, or "<redacted>" for a secret that is set.
func (v value) redacted() string {
	if v.secret && v.text != "" {
		return "<redacted>"
	}
	return v.text
}

// key names a setting of the cluster or, with a job, one of that job.
type key struct{ job, name string }

// String is the name that is shown. Of a job with a long name it has both ends: entrypoints often differ only in their
// last arguments.
func (k key) String() string {
	const end = maxName / 4
	job := k.job
	switch {
	case job == "":
		return k.name
	case len(job) > 2*end:
		job = job[:end] + "…" + job[len(job)-end:]
	}
	return human.FirstBytes(job+": "+k.name, maxName)
}

// settings are a side's.
type settings map[key]value

// addPlain adds a setting that is no secret.
func (s settings) addPlain(k key, text string) { s.add(k, value{text: text}) }

// add adds a setting, with its name and its text cut to maxName bytes. It leaves out empty texts, and new settings
// beyond maxSettings.
func (s settings) add(k key, v value) {
	if k.name = human.FirstBytes(k.name, maxName); v.text != "" && (len(s) < maxSettings || s[k].text != "") {
		v.text = human.FirstBytes(v.text, maxName)
		s[k] = v
	}
}

// withoutJobName returns the settings without the name of the job that they are of; ok is false if they are of several
// jobs.
func (s settings) withoutJobName() (all settings, ok bool) {
	all = settings{}
	job := ""
	for k, v := range s {
		if job = cmp.Or(job, k.job); k.job != "" && k.job != job {
			return nil, false
		}
		all[key{name: k.name}] = v
	}
	return all, true
}

// readSettings reads the versions of Ray and Python, and what was set for the side's job. If the side is a whole
// session, it reads what was set for each of its jobs, of several runs of a job for the last one. hides says whether
// the values of secrets are not to be shown; if it is nil, they are.
func (s *Side) readSettings(ctx context.Context, r *moment.Moment, hides Hides) error {
	hide := false
	if hides != nil {
		var err error
		if hide, err = hides(ctx, r); err != nil {
			return err
		}
	}
	build, err := r.Build(ctx)
	if err != nil {
		return err
	}
	jobs, err := r.Jobs(ctx)
	if err != nil {
		return err
	}
	s.settings = settings{}
	s.settings.addPlain(key{name: "Ray"}, build.Version)
	s.settings.addPlain(key{name: "Python"}, build.Python)
	slices.SortStableFunc(jobs, func(a, b moment.Job) int { return cmp.Compare(b.Start, a.Start) })
	seen := map[string]bool{}
	for i := range jobs {
		j := &jobs[i]
		if s.Job != nil && (j.ID != s.Job.ID || j.SubmissionID != s.Job.SubmissionID) {
			continue
		}
		job := &Job{ID: j.ID, SubmissionID: j.SubmissionID, Entrypoint: j.Entrypoint}
		switch name := append(job.commonNames(), job.Name())[0]; {
		case seen[name]:
		case len(seen) == maxJobs:
			s.settingsCut = true
		default:
			seen[name] = true
			s.settings.addJob(name, j, hide)
		}
	}
	if s.settingsCut = s.settingsCut || len(s.settings) == maxSettings; s.settingsCut {
		s.Notes = append(s.Notes, "It has too many settings to compare all of them.")
	}
	return nil
}

// addJob adds what was set for a job, which is called job in the settings. If hide is true, its secrets are not shown.
func (s settings) addJob(job string, j *moment.Job, hide bool) {
	s.addPlain(key{job, "entrypoint"}, j.Entrypoint)
	env := j.Saved.Get("runtime_env")
	if env == nil && j.RuntimeEnv != "" {
		if parsed, err := pyjson.Parse([]byte(j.RuntimeEnv)); err == nil {
			env = parsed
		}
	}
	const secret = false // as a whole
	s.addValue(key{job, "runtime_env"}, env, maxDepth, hide, secret)
	metadata := map[string]string{}
	maps.Copy(metadata, j.Metadata)
	for name, v := range j.Saved.Object("metadata").All() {
		if text, ok := v.(string); ok && !moment.RayMetadata(name) {
			metadata[name] = text
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		s.addPlain(key{job, "metadata." + name}, metadata[name])
	}
}

// addValue adds a JSON value under a key: each member of an object as a setting of its own, down to depth levels, and
// anything else as one text. secret says that the value is a secret; if hide is true, all that is in a secretField is
// one.
func (s settings) addValue(k key, v any, depth int, hide, secret bool) {
	if o, ok := v.(*pyjson.Object); ok && depth > 0 {
		for field, member := range o.All() {
			s.addValue(key{k.job, k.name + "." + field}, member, depth-1, hide, secret || hide && field == secretField)
		}
	} else if text, ok := v.(string); ok {
		s.add(k, value{text, secret})
	} else if v != nil {
		s.add(k, value{string(pyjson.Append(nil, v)), secret})
	}
}

// nodesPrefix is what the settings of node groups begin with.
const nodesPrefix = "nodes "

// addNodes adds, for each group of nodes, how many nodes it had and with which resources, such as "2 × 8 CPU, 1 GPU".
// memory returns how many bytes of memory to show for a type of nodes; 0 for none.
func (s settings) addNodes(nodes map[nodeType]*counted, memory func(nodeType) float64) {
	types := slices.SortedFunc(maps.Keys(nodes), func(a, b nodeType) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.gpu, b.gpu))
	})
	for _, t := range types {
		text := fmt.Sprintf("%d × %g CPU", nodes[t].Count, t.cpu)
		if t.gpu > 0 {
			text += fmt.Sprintf(", %g GPU", t.gpu)
		}
		if m := memory(t); m > 0 {
			text += ", " + human.Bytes(int64(m))
		}
		k := key{name: human.FirstBytes(nodesPrefix+t.name, maxName)}
		if before := s[k].text; before != "" {
			text = before + " + " + text
		}
		s.addPlain(k, text)
	}
}

// sameMemory is the share by which the memory of two nodes of the same size differs at most: Ray measures at its start
// how much is free.
const sameMemory = 0.1

// nodeGroups returns the groups of nodes of both sides as settings. If the memory of a type differs by no more than
// sameMemory, both sides get the same text for it, so that it is no difference.
func nodeGroups(session, with *Side) (a, b settings) {
	memoryOf := func(side, other *Side) func(nodeType) float64 {
		return func(t nodeType) float64 {
			own, others := valueOrZero(side.nodes[t]).memory, valueOrZero(other.nodes[t]).memory
			if larger := max(own, others); others > 0 && math.Abs(own-others) <= sameMemory*larger {
				return larger
			}
			return own
		}
	}
	a, b = settings{}, settings{}
	a.addNodes(session.nodes, memoryOf(session, with))
	b.addNodes(with.nodes, memoryOf(with, session))
	return a, b
}

// differences returns the settings that differ: the versions of Ray and Python, then the nodes, then all others, by
// name. Settings of jobs have the job's name before theirs, unless each side has only one job: then it may be called
// something else on the other side. Of a side whose settings were cut, a setting that is not there counts as unknown.
func differences(session, with *Side) []Setting {
	list := []Setting{}
	add := func(session, with settings, sessionCut, withCut bool) {
		keys := slices.SortedFunc(maps.Keys(keysOfBoth(session, with)), func(a, b key) int {
			return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.name, b.name))
		})
		for _, k := range keys {
			a, b := session[k], with[k]
			known := (a.text != "" || !sessionCut) && (b.text != "" || !withCut)
			if known && a.text != b.text {
				list = append(list, Setting{Name: k.String(), Session: a.redacted(), With: b.redacted()})
			}
		}
	}
	one, isOne := session.settings.withoutJobName()
	other, otherIsOne := with.settings.withoutJobName()
	if !isOne || !otherIsOne {
		one, other = session.settings, with.settings
	}
	add(one, other, session.settingsCut, with.settingsCut)
	nodes, otherNodes := nodeGroups(session, with)
	const cut = false
	add(nodes, otherNodes, cut, cut)
	rank := func(s Setting) int {
		switch {
		case s.Name == "Ray":
			return 0
		case s.Name == "Python":
			return 1
		case strings.HasPrefix(s.Name, nodesPrefix):
			return 2
		}
		return 3
	}
	slices.SortStableFunc(list, func(a, b Setting) int { // those of one name stay in the order of their jobs
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
	return list
}
