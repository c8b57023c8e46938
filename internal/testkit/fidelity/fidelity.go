// Package fidelity measures how similar the history server's answers are to those of the live dashboard. It sends the
// requests that were sent when the session was recorded, and counts the leaves of the recorded JSON that come back
// equal.
//
// Requests are grouped into families, one for each kind of request. Each family counts the same, whatever its number of
// requests: the figure is the mean of the families' shares. Times of day, hardware figures and counters change between
// two requests to the very same dashboard. For them only presence and type count, and that a figure is not zero where
// it was not zero before.
package fidelity

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
)

// Getter asks the server under test; url is path and query.
type Getter func(url string) (status int, body []byte, err error)

// Family is the outcome of all requests of one kind.
type Family struct {
	Name        string
	Requests    int
	RightStatus int
	Leaves      int // of the recorded answers with status 200: JSON leaves, or lines where it is not JSON
	Equal       int
	// WrongStatus are the requests that got another status than recorded.
	WrongStatus []WrongStatus
	// Differences are leaves that differ, by path; IDs in paths are written as ID.
	Differences map[string][]Difference
}

// Difference is one leaf that was answered otherwise.
type Difference struct{ Want, Got string }

// Share is the part of the leaves that were equal, or of the requests with the right status where no answer has leaves.
func (f *Family) Share() float64 {
	if f.Leaves > 0 {
		return float64(f.Equal) / float64(f.Leaves)
	}
	return float64(f.RightStatus) / float64(f.Requests)
}

// Report is the outcome of a whole recording, families in the order they were first asked for.
type Report struct{ Families []*Family }

// MeanShare is the mean of the families' shares, in [0, 1].
func (r *Report) MeanShare() float64 {
	sum := 0.0
	for _, f := range r.Families {
		sum += f.Share()
	}
	return sum / float64(max(1, len(r.Families)))
}

// RightStatusShare is the part of the requests that got the recorded status, in [0, 1].
func (r *Report) RightStatusShare() float64 {
	right, all := 0, 0
	for _, f := range r.Families {
		right += f.RightStatus
		all += f.Requests
	}
	return float64(right) / float64(max(1, all))
}

// Compare asks for every recorded answer again.
func Compare(answers []recording.Answer, get Getter) (*Report, error) {
	report := &Report{}
	byName := map[string]*Family{}
	for _, want := range answers {
		name := FamilyOf(want.URL)
		f := byName[name]
		if f == nil {
			f = &Family{Name: name, Differences: map[string][]Difference{}}
			byName[name] = f
			report.Families = append(report.Families, f)
		}
		status, body, err := get(want.URL)
		if err != nil {
			return nil, fmt.Errorf("get %s: %w", want.URL, err)
		}
		f.Requests++
		if rightStatus(want.Status, status, body) {
			f.RightStatus++
		} else {
			f.WrongStatus = append(f.WrongStatus, WrongStatus{want.Status, status, want.URL,
				string(body[:min(len(body), 100)])})
		}
		if want.Status == 200 {
			f.compareBodies(want.Body, body, status)
		}
	}
	return report, nil
}

// rightStatus takes any client or server error for another: where Ray has a bare 500, a clean 4xx is right. A page that
// does not exist at all is not an answer.
func rightStatus(want, got int, body []byte) bool {
	if want == got {
		return true
	}
	noSuchPage := got == 404 && want != 404 && bytes.Contains(body, []byte("Page Not Found"))
	return want >= 400 && got >= 400 && got < 600 && got != 501 && !noSuchPage
}

func (f *Family) compareBodies(want, got []byte, status int) {
	if tree, ok := decodeTree(want); ok {
		var answer any = missing{}
		if status == 200 {
			if v, err := decode(got); err == nil {
				answer = v
			}
		}
		f.compare(tree, answer, "")
		return
	}
	left := map[string]int{}
	if status == 200 {
		for _, line := range lines(got) {
			left[line]++
		}
	}
	for _, line := range lines(want) {
		f.Leaves++
		if left[line] > 0 {
			left[line]--
			f.Equal++
		}
	}
}

func lines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func decode(body []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}

// decodeTree decodes JSON objects and arrays; a lone scalar is compared as text.
func decodeTree(body []byte) (any, bool) {
	v, err := decode(body)
	if err != nil {
		return nil, false
	}
	switch v.(type) {
	case map[string]any, []any:
		return v, true
	}
	return nil, false
}

var (
	longHex     = regexp.MustCompile(`[0-9a-f]{16,}`)
	jobPath     = regexp.MustCompile(`jobs/[^/]+`)
	datasetPath = regexp.MustCompile(`datasets/.*`)
)

// FamilyOf names the kind of question that a URL asks.
func FamilyOf(url string) string {
	path, query, _ := strings.Cut(url, "?")
	p := strings.Trim(path, "/")
	p = longHex.ReplaceAllString(p, "{id}")
	p = jobPath.ReplaceAllString(p, "jobs/{id}")
	p = datasetPath.ReplaceAllString(p, "datasets/{id}")
	switch {
	case strings.Contains(query, "summary_by=lineage"):
		p += " lineage"
	case p == "nodes":
		p += "?" + query
	case p == "events" && query != "":
		p += "?job_id"
	case p == "api/v0/logs/file":
		by := "file"
		for _, k := range []string{"task", "actor"} {
			if strings.Contains(query, k+"_id=") {
				by = k
			}
		}
		if by == "file" && strings.Contains(query, "pid=") {
			by = "pid"
		}
		p += " " + by
	}
	return p
}

// Print writes a line per family and the totals; show is how many differences of each to show.
func (r *Report) Print(w io.Writer, show int) error {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "%-48s %5s %7s %8s %8s %6s\n", "family", "reqs", "status", "leaves", "equal", "share")
	for _, f := range r.Families {
		fmt.Fprintf(b, "%-48s %5d %7d %8d %8d %6.1f%%\n", f.Name, f.Requests, f.RightStatus, f.Leaves, f.Equal,
			100*f.Share())
		f.printDifferences(b, show)
	}
	fmt.Fprintf(b, "mean family share %.1f%%, right status %.1f%%\n", 100*r.MeanShare(), 100*r.RightStatusShare())
	_, err := w.Write(b.Bytes())
	return err
}

func (f *Family) printDifferences(b *bytes.Buffer, show int) {
	for _, s := range f.WrongStatus[:min(show, len(f.WrongStatus))] {
		fmt.Fprintf(b, "      status %s\n", s)
	}
	paths := make([]string, 0, len(f.Differences))
	for p := range f.Differences {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, c string) int {
		return cmp.Or(len(f.Differences[c])-len(f.Differences[a]), strings.Compare(a, c))
	})
	for _, p := range paths[:min(show, len(paths))] {
		d := f.Differences[p][0]
		fmt.Fprintf(b, "      %5d %s: %.90s -> %.90s\n", len(f.Differences[p]), p, d.Want, d.Got)
	}
}
