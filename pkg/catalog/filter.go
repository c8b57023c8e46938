package catalog

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Filter selects sessions of the list. Its zero value selects all.
type Filter struct {
	// Words must each occur, in upper or lower case, in what is known about a session: its names, owner and Ray
	// version, its jobs' IDs, submissions, entrypoints, users and messages, its labels and, if it has ended, its
	// findings.
	Words []string
	// Namespace, Cluster and Owner are names; "" for all. With KubernetesCluster, "" for all, Namespace may be the name
	// that the namespace has there.
	KubernetesCluster, Namespace, Cluster, Owner string
	// User is that of a job, Labels are names, or names and values such as team=search, of which a session has all; in
	// upper or lower case.
	User   string
	Labels []string
	// Finding is the kind of one of the session's stored findings, such as node_died; "" for all.
	Finding string
	// Submission is the complete ID of a submission that the session has; "" for all.
	Submission string

	State string // Running, Ended or ""
	Kind  string // RayCluster, RayJob, RayService or ""
	// Outcome is one of FilterOutcomes or ""; a running session has none, whatever its jobs did.
	Outcome    string
	RayVersion string    // "2.60" passes "2.60.0"
	From, To   time.Time // it began at or after From and before To; zero: no limit
	Longer     time.Duration
	Shorter    time.Duration // 0: no bound
	Larger     int64         // bytes
	Smaller    int64         // 0: no bound
}

// maxFilterWords limits the words of a filter: each is searched in all names, and a set of the names that contain it is
// kept.
const maxFilterWords = 32

// FilterParams are the names of the parameters that ParseFilter reads.
var FilterParams = []string{
	"q", "namespace", "cluster", "owner", "user", "label", "finding", "state", "kind", "outcome", "version", "from",
	"to", "longer", "shorter", "larger", "smaller", "kubernetes_cluster",
}

// FilterForm returns the parameters FilterParams that are set, without the spaces around them that people type, and
// words that stand for a choice as the fields of forms spell them.
func FilterForm(v url.Values) url.Values {
	form := url.Values{}
	for _, name := range FilterParams {
		value := strings.TrimSpace(v.Get(name))
		switch name {
		case "finding":
			value = strings.ReplaceAll(strings.ToLower(value), " ", "_")
		case "kind":
			value = cmp.Or(Kind(value), value)
		}
		if value != "" {
			form.Set(name, value)
		}
	}
	return form
}

// ParseFilter reads a filter from the parameters FilterParams. Times are as param.Times reads them, those without a
// zone in UTC, and the end is now. A date in "to" means its end. Durations are like 90m, 2h or 3d, sizes are bytes or
// like 10MiB. A parameter that cannot be read is ignored, and the error, a *param.Error, names the first one. If there
// are too many words, the first ones count.
func ParseFilter(v url.Values, now time.Time) (f Filter, err error) {
	form := param.Form{Values: FilterForm(v)}
	if form.Has("q") {
		f.Words = strings.Fields(strings.ToLower(strings.Trim(form.Get("q"), `"“”`))) // as people quote a message
	}
	f.RayVersion = form.Get("version")
	if len(f.Words) > maxFilterWords {
		f.Words = f.Words[:maxFilterWords]
		form.Refuse("q", fmt.Sprintf("at most %d words", maxFilterWords))
	}
	f.KubernetesCluster, f.Namespace = form.Get("kubernetes_cluster"), form.Get("namespace")
	f.Cluster, f.Owner, f.User = form.Get("cluster"), form.Get("owner"), strings.ToLower(form.Get("user"))
	f.Finding = form.Get("finding")
	form.Parse("label", labelsInto(&f.Labels), "a label such as team=search, or its name; several with commas between them")
	f.State = form.OneOf("state", Running, Ended)
	form.Parse("kind", func(s string) bool {
		f.Kind = Kind(s)
		return f.Kind != ""
	}, "RayCluster, RayJob or RayService")
	f.Outcome = form.OneOf("outcome", FilterOutcomes...)
	times := param.Times{Zone: time.UTC, End: now}
	form.Parse("from", timeInto(&f.From, times.Parse), param.WantTime)
	form.Parse("to", timeInto(&f.To, times.ParseEnd), param.WantTime)
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		form.Refuse("from", "a day before "+f.To.Format(time.RFC3339))
		f.From = time.Time{}
	}
	form.Parse("longer", durationInto(&f.Longer), "a duration such as 90m, 2h or 3d")
	form.Parse("shorter", durationInto(&f.Shorter), "a duration such as 90m, 2h or 3d")
	form.Parse("larger", sizeInto(&f.Larger), "bytes, or a size such as 10MiB")
	form.Parse("smaller", sizeInto(&f.Smaller), "bytes, or a size such as 10MiB")
	return f, form.Err
}

// Form returns the parameters of which ParseFilter makes the filter again. There is none for Submission.
func (f *Filter) Form() url.Values {
	timeText := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339Nano)
	}
	durationText := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	larger, smaller := settings.Bytes(f.Larger), settings.Bytes(f.Smaller)
	return FilterForm(url.Values{
		"q": {strings.Join(f.Words, " ")}, "version": {f.RayVersion}, "kubernetes_cluster": {f.KubernetesCluster},
		"namespace": {f.Namespace}, "cluster": {f.Cluster}, "owner": {f.Owner}, "user": {f.User},
		"label": {strings.Join(f.Labels, ",")}, "finding": {f.Finding}, "state": {f.State}, "kind": {f.Kind},
		"outcome": {f.Outcome}, "from": {timeText(f.From)}, "to": {timeText(f.To)},
		"longer": {durationText(f.Longer)}, "shorter": {durationText(f.Shorter)},
		"larger": {larger.String()}, "smaller": {smaller.String()},
	})
}

// labelsInto returns a parser of labels, such as "team" or "team=search", with commas between them. It returns false,
// and leaves into nil, if one has no name or if there are more than maxFilterWords.
func labelsInto(into *[]string) func(string) bool {
	return func(s string) bool {
		for label := range strings.SplitSeq(strings.ToLower(s), ",") {
			label = strings.TrimSpace(label)
			if label == "" || label[0] == '=' || len(*into) == maxFilterWords {
				*into = nil
				return false
			}
			*into = append(*into, label)
		}
		return true
	}
}

// timeInto returns a parser of times. It returns false for text that is no time, and for small numbers: they are years
// or Unix seconds, and read as milliseconds they would select everything.
func timeInto(into *time.Time, parse func(string) (time.Time, bool)) func(string) bool {
	return func(s string) bool {
		at, ok := parse(s)
		if !ok || at.Year() < 1971 && strings.Trim(s, "0123456789") == "" {
			return false
		}
		if at = at.UTC(); at.Year() < 0 || at.Year() > 9999 {
			return false // Form writes RFC 3339, which has no other years
		}
		*into = at
		return true
	}
}

// durationInto returns a parser of durations as flags have them, such as 90m or 7d. It returns false for others.
func durationInto(into *time.Duration) func(string) bool {
	return func(s string) bool {
		var d settings.Duration
		if d.Set(s) != nil || d < 0 {
			return false
		}
		*into = time.Duration(d)
		return true
	}
}

// sizeInto returns a parser of sizes as flags have them, in bytes or with a unit, such as 1.5 GiB. It returns false for
// others.
func sizeInto(into *int64) func(string) bool {
	return func(s string) bool {
		var bytes settings.Bytes
		if number := strings.TrimRight(s, "KMGTPEiB"); number != "" && strings.Trim(number, "0.") == "" {
			return true // 0 is no limit; Set would refuse it, because no flag may be 0
		}
		if bytes.Set(s) != nil {
			return false
		}
		*into = int64(bytes)
		return true
	}
}

// selectsNamespace says whether the filter selects sessions of a namespace, which is given with the name of its
// Kubernetes cluster at its end, if it has one.
func (f *Filter) selectsNamespace(namespace string) bool {
	if f.KubernetesCluster == "" {
		return f.Namespace == "" || f.Namespace == namespace
	}
	name, cluster := layout.SplitNamespace(namespace)
	return cluster == f.KubernetesCluster && (f.Namespace == "" || f.Namespace == name || f.Namespace == namespace)
}

// Narrows says whether the filter excludes anything.
func (f *Filter) Narrows() bool {
	return !reflect.ValueOf(*f).IsZero()
}
