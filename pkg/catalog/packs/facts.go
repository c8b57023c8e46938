// Package packs stores what is known about ended sessions, so that a list of a million sessions is read from some
// thousand objects.
//
// A pack is a Parquet file with one row for each session. It belongs to the day in the sessions' names, and has a
// number. Packs are only created, under the next free number: of several writers one gets the number, and the others
// read what it wrote. A session may have several rows, in one pack or several. Merge says what they mean together, in
// any order. So nothing is lost or doubled by two writers, by packs that were joined but not removed, or by facts that
// were written twice.
//
// Packs are computed from the sessions. Without a pack, its sessions are read again from their own objects and packed
// again. Everything that is read from a pack is untrusted input.
package packs

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
)

// Facts are what is known about one ended session: a row of a pack. "Not known" and "none" differ: a zero time, an
// empty text and nil mean not known.
type Facts struct {
	Ref layout.Session
	// Seen is when these facts were read, by the clock of the server that read them. See Merge.
	Seen time.Time

	Summary
	Start     time.Time
	End       time.Time
	LastWrite time.Time // when the newest object was stored

	// Version is that of the rules by which Outcome, Cause and Findings were found out; 0: not known.
	Version int
	// Findings are the kept findings, the first cause first; empty but not nil if there are none.
	Findings []Finding
	// Jobs are the drivers and submissions in Ray's last answer; empty but not nil if there were none.
	Jobs  []Job
	Hours *Hours
	// Labels are those of the RayCluster; empty but not nil if there are none.
	Labels map[string]string

	// Text is the text for searches: users, labels, names, jobs and causes in lower case, separated by newlines. It
	// begins with lines such as finding=node_died, one for each kind of finding, user=ana, one for each user, and
	// team=search, one for each label, and an empty one. Append makes it from the other fields.
	Text string
}

// Summary is what lists show of a session besides its name, its state and its times. Programs get it as JSON.
type Summary struct {
	// OwnerKind is RayCluster, RayJob or RayService. OwnerName is the name of the object that the user created; for a
	// RayCluster it is the cluster's own name.
	OwnerKind  string `json:"ownerKind"`
	OwnerName  string `json:"ownerName"`
	RayVersion string `json:"rayVersion,omitempty"` // "2.60.0"; "" if not known
	Nodes      int    `json:"nodes,omitempty"`      // during the session, including dead ones; 0 if not known
	Objects    int    `json:"objects"`
	Bytes      int64  `json:"bytes"` // of all stored objects
	// Outcome is one of catalog.Outcomes; "" is not known yet. Cause is the first error in one line, or why the server
	// could not find out.
	Outcome string `json:"outcome,omitempty"`
	Cause   string `json:"cause,omitempty"`
	// FailedJobs is how many jobs of a running session have failed. For an ended session it is 0: see Outcome.
	FailedJobs int `json:"failedJobs,omitempty"`
}

// Job is a driver, a submission, or both.
type Job struct {
	ID         string `json:"id,omitempty"`         // of the driver, in hex
	Submission string `json:"submission,omitempty"` // "" for a driver that nobody submitted
	Status     string `json:"status,omitempty"`     // PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED
	Entrypoint string `json:"entrypoint,omitempty"`
	Message    string `json:"message,omitempty"` // why it failed, its first bytes
	User       string `json:"user,omitempty"`    // "user" of the submission's metadata
	Name       string `json:"name,omitempty"`    // "job_name" or "name" of the submission's metadata
	Start      int64  `json:"start,omitempty"`   // Unix milliseconds, 0: not known
	End        int64  `json:"end,omitempty"`
}

// Failed reports whether Ray recorded that the job failed.
func (j *Job) Failed() bool { return j.Status == jobstatus.Failed }

// Finding is one kept finding of a session.
type Finding struct {
	Kind     string `json:"kind"`
	Severity string `json:"severity"` // error, warning or info
	// Signature is the same for the same failure in other sessions: the title without the parts that differ between
	// sessions, such as IDs and numbers.
	Signature string `json:"signature"`
	Title     string `json:"title"`
	Count     int    `json:"count"`
}

// Hours are sums over the session's nodes, of the time that each was alive.
type Hours struct {
	Amounts // that the nodes offered to Ray
	// Used is the part of these that was in use, from metrics or hardware figures; nil: not known.
	Used *Used `json:"used,omitempty"`
	// Nodes are the parts of these of nodes with the same PriceLabels, at most maxNodeKinds; nodes without such labels
	// are in none.
	Nodes []NodeHours `json:"nodes,omitempty"`
}

// NodeHours are the hours of nodes with the same labels.
type NodeHours struct {
	Labels map[string]string `json:"labels"`
	Amounts
}

// Amounts are amounts times hours.
type Amounts struct {
	Node   float64 `json:"node" yaml:"node"`
	CPU    float64 `json:"cpu" yaml:"cpu"`
	GPU    float64 `json:"gpu" yaml:"gpu"`
	Memory float64 `json:"memory" yaml:"memory"` // GiB
}

// AmountsOf returns the amounts of a node that was alive for some hours. amount says how much it had of one of Ray's
// resources, of memory in bytes.
func AmountsOf(hours float64, amount func(resource string) float64) Amounts {
	return Amounts{Node: hours, CPU: hours * amount("CPU"), GPU: hours * amount("GPU"),
		Memory: hours * amount("memory") / (1 << 30)}
}

// Each returns pointers to all amounts: first to that of nodes, then to those of resources, in the order of Used.Each.
func (a *Amounts) Each() []*float64 { return []*float64{&a.Node, &a.CPU, &a.GPU, &a.Memory} }

func (a *Amounts) add(b Amounts) {
	more := b.Each()
	for i, amount := range a.Each() {
		*amount += *more[i]
	}
}

// PriceLabels are the labels of nodes by which prices may differ: those that Ray and KubeRay set (NodeLabel in
// ray/_private/ray_constants and src/ray/common/constants.h), and that of Kubernetes for the machine's type.
var PriceLabels = []string{"ray.io/accelerator-type", "ray.io/market-type", "ray.io/node-group",
	"ray.io/availability-region", "node.kubernetes.io/instance-type"}

// AddNode adds the hours of a node with these labels, of which only PriceLabels count. They are always in the sum; a
// node without such labels, or of one kind more than maxNodeKinds, is in no part of it.
func (h *Hours) AddNode(labels map[string]string, a Amounts) {
	h.Amounts.add(a)
	priced := make(map[string]string)
	for _, name := range PriceLabels {
		if value := labels[name]; value != "" {
			priced[name] = ShortLine(value)
		}
	}
	at := slices.IndexFunc(h.Nodes, func(n NodeHours) bool { return maps.Equal(n.Labels, priced) })
	switch {
	case at >= 0:
		h.Nodes[at].add(a)
	case len(priced) > 0 && len(h.Nodes) < maxNodeKinds:
		h.Nodes = append(h.Nodes, NodeHours{priced, a})
	}
}

// Used is the part of a session's Hours that was in use.
type Used struct {
	CPU    float64 `json:"cpu"`
	GPU    float64 `json:"gpu"`
	Memory float64 `json:"memory"` // GiB
}

// Each returns pointers to the amounts of all resources.
func (u *Used) Each() []*float64 { return []*float64{&u.CPU, &u.GPU, &u.Memory} }

// Limits of what is written for one session. What exceeds them is cut off.
const (
	// MaxFindings is how many findings are kept.
	MaxFindings = 50

	maxJobs = 200
	// maxNodeKinds is how many kinds of nodes have hours of their own.
	maxNodeKinds = 16

	maxShort  = 300     // bytes of an entrypoint, a message, a title, a name
	maxSearch = 4 << 10 // bytes of Text
	maxTags   = 1 << 10 // bytes of its lines with kinds of findings, users and labels
)

// Merge combines two rows of the same session; their order does not matter. The row with the later LastWrite counts, or
// the one that was seen later if both are equal. If LastWrite is equal, gaps of that row are filled from the other one,
// and an outcome that was determined by earlier rules is replaced.
func Merge(a, b Facts) Facts {
	if a.compare(&b) < 0 {
		a, b = b, a
	}
	if a.LastWrite.UnixMilli() != b.LastWrite.UnixMilli() { // packs have no shorter times
		return a
	}
	longer := len(b.Text) > len(a.Text)
	replaceText := false // b's text for searches is the better one
	if b.Outcome != "" && (a.Outcome == "" || a.Version < b.Version) {
		replaceText = longer || b.countKnown() >= a.countKnown() // later rules may find less, so b's may be shorter
		a.Outcome, a.Cause, a.Findings, a.Version = b.Outcome, b.Cause, b.Findings, b.Version
		if a.Hours != nil && b.Hours != nil { // Used is computed with the findings
			hours := *a.Hours
			hours.Used, a.Hours = cmp.Or(b.Hours.Used, hours.Used), &hours
		}
	}
	if a.Jobs == nil && b.Jobs != nil {
		a.Jobs, replaceText = b.Jobs, replaceText || longer
	}
	if a.Labels == nil && b.Labels != nil {
		a.Labels, replaceText = b.Labels, replaceText || longer
	}
	if a.Hours == nil {
		a.Hours = b.Hours
	}
	if replaceText {
		a.Text = b.Text
	}
	return a
}

// compare orders rows of a session by which one counts more. Seen comes after LastWrite, because the clocks of servers
// may be wrong.
func (f *Facts) compare(other *Facts) int {
	return cmp.Or(cmp.Compare(f.LastWrite.UnixMilli(), other.LastWrite.UnixMilli()),
		f.Seen.Compare(other.Seen), cmp.Compare(f.countKnown(), other.countKnown()))
}

// countKnown returns how many parts of the facts are known: outcome, jobs, hours and labels.
func (f *Facts) countKnown() (n int) {
	for _, known := range []bool{f.Outcome != "", f.Jobs != nil, f.Hours != nil, f.Labels != nil} {
		if known {
			n++
		}
	}
	return n
}

// Bounded returns facts that are cut to the limits of packs, with Text made from the other fields. What f refers to is
// not changed.
func (f Facts) Bounded() Facts {
	for _, at := range []*time.Time{&f.Seen, &f.Start, &f.End, &f.LastWrite} {
		*at = cutToMillis(*at)
	}
	f.OwnerKind, f.OwnerName, f.RayVersion = ShortLine(f.OwnerKind), ShortLine(f.OwnerName), ShortLine(f.RayVersion)
	f.Outcome, f.Cause = ShortLine(f.Outcome), ShortLine(f.Cause)
	f.Version = clampNumber(f.Version)
	f.Bytes, f.Objects, f.Nodes = clampNumber(f.Bytes), clampNumber(f.Objects), clampNumber(f.Nodes)
	if h := f.Hours; h != nil {
		switch u := h.Used; {
		case !Sane(h.Each()):
			f.Hours = nil
		case u != nil && !Sane(u.Each()):
			f.Hours = &Hours{Amounts: h.Amounts, Nodes: h.Nodes}
		}
	}
	f.Jobs = slices.Clone(f.Jobs[:min(len(f.Jobs), maxJobs)])
	for i := range f.Jobs {
		j := &f.Jobs[i]
		for _, text := range []*string{&j.ID, &j.Submission, &j.Status, &j.Entrypoint, &j.Message, &j.User, &j.Name} {
			*text = ShortLine(*text)
		}
	}
	f.Findings = slices.Clone(f.Findings[:min(len(f.Findings), MaxFindings)])
	for i := range f.Findings {
		g := &f.Findings[i]
		for _, text := range []*string{&g.Kind, &g.Severity, &g.Signature, &g.Title} {
			*text = ShortLine(*text)
		}
	}
	if f.Labels != nil {
		labels := make(map[string]string, min(len(f.Labels), layout.MaxLabels))
		for _, name := range slices.Sorted(maps.Keys(f.Labels))[:min(len(f.Labels), layout.MaxLabels)] {
			labels[ShortLine(name)] = ShortLine(f.Labels[name])
		}
		f.Labels = labels
	}
	f.Text = f.searchText()
	return f
}

// searchText returns Text. What people search for most comes first, because the end may be cut off.
func (f *Facts) searchText() string {
	var b strings.Builder
	for _, tag := range f.tagLines() {
		if b.Len()+len(tag) < maxTags {
			b.WriteString(tag + "\n")
		}
	}
	b.WriteByte('\n') // an empty line ends the tags
	add := func(texts ...string) {
		for _, text := range texts {
			if text != "" && b.Len() < maxSearch {
				b.WriteString(strings.ToLower(text))
				b.WriteByte('\n')
			}
		}
	}
	for i := range f.Jobs {
		add(f.Jobs[i].Submission)
	}
	for i := range f.Jobs {
		add(f.Jobs[i].Name, f.Jobs[i].ID, f.Jobs[i].Entrypoint)
	}
	add(f.Cause)
	for i := range f.Findings {
		add(f.Findings[i].Title)
	}
	for i := range f.Jobs {
		add(f.Jobs[i].Message)
	}
	return human.FirstBytes(b.String(), maxSearch)
}

// tagLines returns the lines of Text for kinds of findings, users and labels, in lower case.
func (f *Facts) tagLines() (tags []string) {
	for i := range f.Findings {
		tags = append(tags, strings.ToLower(FindingTag+f.Findings[i].Kind))
	}
	for i := range f.Jobs {
		if user := f.Jobs[i].User; user != "" {
			tags = append(tags, strings.ToLower(UserTag+user))
		}
	}
	slices.Sort(tags)
	tags = slices.Compact(tags)
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		tags = append(tags, strings.ToLower(name+"="+f.Labels[name]))
	}
	return tags
}

// What the lines of Text for users and for kinds of findings begin with.
const (
	UserTag    = "user="
	FindingTag = "finding="
)

// Tags returns the lines of a Text for kinds of findings, users and labels, such as user=ana.
func Tags(text string) []string {
	tags, _, ok := strings.Cut(text, "\n\n")
	if !ok {
		return nil // there are none
	}
	return strings.Split(tags, "\n")
}

// memoryBytes returns about how many bytes of memory the facts take: the numbers are the sizes of structs and of map
// entries, rounded up.
func (f *Facts) memoryBytes() int {
	n := 512 + len(f.Text) + len(f.Cause)
	for i := range f.Jobs {
		j := &f.Jobs[i]
		n += 128 + len(j.ID) + len(j.Submission) + len(j.Status) + len(j.Entrypoint) + len(j.Message) + len(j.User) +
			len(j.Name)
	}
	for i := range f.Findings {
		n += 80 + len(f.Findings[i].Signature) + len(f.Findings[i].Title)
	}
	for name, value := range f.Labels {
		n += 64 + len(name) + len(value)
	}
	return n
}

// clampNumber limits a number to the range 0 to maxNumber that packs allow, because metadata may contain any number.
func clampNumber[T int | int64](n T) T { return min(max(0, n), maxNumber) }

// Sane says whether all amounts can be added up and written as JSON: they are neither negative, nor huge, nor NaN.
func Sane(amounts []*float64) bool {
	for _, v := range amounts {
		if !(*v >= 0 && *v < 1e15) {
			return false
		}
	}
	return true
}

// cutToMillis cuts a time to the milliseconds that packs hold. A time that they cannot hold becomes zero, which means
// not known.
func cutToMillis(t time.Time) time.Time {
	if ms := t.UnixMilli(); ms <= 0 || ms >= latest {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

// ShortLine cuts a text to maxShort bytes of valid UTF-8 in one line. Control characters, which take six bytes each in
// JSON, become spaces.
func ShortLine(text string) string {
	text = human.FirstBytes(text, maxShort)
	if strings.ContainsFunc(text, unicode.IsControl) {
		text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
			return unicode.IsSpace(r) ||
				unicode.IsControl(r)
		}), " ")
	}
	return text
}
