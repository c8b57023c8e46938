package findings

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
)

// The findings of an ended session are kept as two lines of JSON: a Head, which is all that the list of sessions reads,
// and the Report. Like everything that is stored they are untrusted input. They are ignored if they are damaged or too
// large, or describe another state than the one that is stored now.
//
// Servers of several versions may share a store. The list of sessions shows what any version found out. What a later
// one found out, or gave up, stays: an earlier one would take back what the other finds out again, and so on for ever.
// Only a Report of exactly this version answers requests: another one may have what this one cannot show.

// KeptVersion changes when the same session would get another report.
const KeptVersion = 136

// Limits of kept findings.
const (
	// HeadBytes is how many bytes must be read to get the Head.
	HeadBytes = 4 << 10
	// MaxKeptBytes limits the Head and the report together.
	MaxKeptBytes = HeadBytes + maxKept
	maxKept      = 4 << 20  // bytes of the report
	maxMemory    = 24 << 20 // bytes of memory that reading the report may take
	maxCause     = 160      // characters of a Head's Cause
)

// Head says how a session ended.
type Head struct {
	Version int `json:"version"`
	// GivenUp is the version that could not find out what an earlier one did; 0: none. Then the report is that one's.
	GivenUp int    `json:"given_up,omitempty"`
	Session string `json:"session"` // namespace/cluster/session
	// Of is the state of the session that the report describes, see moment.StateOf.
	Of string `json:"of"`
	// Stored is when the newest object of that state was stored.
	Stored time.Time `json:"stored"`
	// Objects is how many objects the session had then; 0: not known.
	Objects int    `json:"objects,omitempty"`
	Outcome string `json:"outcome"`
	// Cause is the title of the first error in one line; "" if there is no error.
	Cause string `json:"cause"`
	Bytes int64  `json:"bytes"` // size of the report
	// Used is what the session's nodes used; nil if it is not known.
	Used *packs.Used `json:"used,omitempty"`
}

// errNotKept means that the kept findings cannot be used: they are damaged, or not about the session as it is stored
// now.
var errNotKept = errors.New("not the findings of what is stored now")

// Encode returns the findings of an ended session in the form in which they are kept. used is what the session's nodes
// used; nil if it is not known. It is an error if the report is one that would be refused when it is read, or is too
// large.
func Encode(s *session.Session, r *Report, used *packs.Used) ([]byte, error) {
	if err := r.check(s.Ref); err != nil {
		return nil, fmt.Errorf("the findings of %s: %w", s.Ref, err) // they would be refused when they are read
	}
	report, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(report) > maxKept || keptMemory(report) > maxMemory {
		return nil, fmt.Errorf("the findings of %s have %d bytes, which is too large to keep", s.Ref, len(report))
	}
	h := Head{
		Version: KeptVersion, Session: s.Ref.String(), Of: moment.StateOf(s), Stored: s.LastStored(),
		Objects: s.ObjectCount(), Outcome: r.Outcome, Cause: r.Cause(),
		Bytes: int64(len(report)), Used: used,
	}
	return h.encode(report)
}

// encode returns the two lines that are kept: the Head and the report.
func (h Head) encode(report []byte) ([]byte, error) {
	head, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(head) >= HeadBytes {
		return nil, fmt.Errorf("the outcome of %s has %d bytes, which is too large to keep", h.Session, len(head))
	}
	return slices.Concat(head, []byte("\n"), report, []byte("\n")), nil
}

// Carry makes the kept findings of a session valid after its objects were stored in another way: from is the session
// before its objects were joined, or the original of a copy, and to is what it is now. kept may be by any version. The
// error is errNotKept if kept does not describe from.
func Carry(kept []byte, from, to *session.Session) ([]byte, error) {
	h, report, err := splitKept(kept, from.Ref)
	if err != nil {
		return nil, err
	}
	if !h.isCurrent(from) {
		return nil, fmt.Errorf("how %s ended: %w", from.Ref, errNotKept)
	}
	h.Of, h.Stored, h.Objects = moment.StateOf(to), to.LastStored(), to.ObjectCount()
	return h.encode(report)
}

// splitKept returns the two parts of the kept findings of a session, as encode wrote them: the Head, and the report in
// JSON.
func splitKept(kept []byte, ref layout.Session) (h Head, report []byte, err error) {
	if h, err = ReadHead(bytes.NewReader(kept), ref); err != nil {
		return h, nil, err
	}
	_, report, _ = bytes.Cut(kept, []byte("\n"))
	if report = bytes.TrimSuffix(report, []byte("\n")); h.Bytes != int64(len(report)) {
		return h, nil, fmt.Errorf("how %s ended: %w", ref, errNotKept)
	}
	return h, report, nil
}

// Cause returns the title of the first error in one short line; "" if there is no error.
func (r *Report) Cause() string {
	if f := r.FirstError(); f != nil {
		return shortLine(f.Title)
	}
	return ""
}

// shortLine returns a text as one printable line of at most maxCause characters; what is cut off is shown as "…".
func shortLine(text string) string {
	const maxSearched = 8 * maxCause // bytes: of a text of any length, with room for what is left out below
	text = text[:min(len(text), maxSearched)]
	runes := []rune(strings.Join(strings.Fields(output.Printable(strings.ToValidUTF8(text, "�"))), " "))
	if len(runes) > maxCause {
		runes = append(runes[:maxCause-1], '…')
	}
	return string(runes)
}

// givenUp is what the cause begins with of a session whose findings could not be computed.
const givenUp = "The server could not find out: "

// GivenUp says whether a cause tells that how a session ended could not be found out: then its outcome, which is
// catalog.Unknown, does not say that nothing of its jobs is stored.
func GivenUp(cause string) bool { return strings.HasPrefix(cause, givenUp) }

// EncodeGivenUp returns what is kept of a session whose findings cannot be computed. before is what was kept until now;
// it may be empty. If before is by this version or a later one, it stays as it is. If it has the findings of an earlier
// version, these stay, with a note that this version gave up. Otherwise the outcome is unknown, and the cause is why;
// then the findings are computed again when somebody opens the session. lastWrite is when the session's newest object
// was stored.
func EncodeGivenUp(before []byte, ref layout.Session, lastWrite time.Time, why string) ([]byte, error) {
	h, err := ReadHead(bytes.NewReader(before), ref)
	if err == nil && h.Covers(lastWrite) && h.TriedBy() >= KeptVersion {
		return before, nil
	}
	if h, report, err := splitKept(before, ref); err == nil && h.Of != "" && h.Covers(lastWrite) {
		h.GivenUp = KeptVersion
		return h.encode(report)
	}
	none := Head{
		Version: KeptVersion, Session: ref.String(), Stored: lastWrite, Outcome: catalog.Unknown,
		Cause: shortLine(givenUp + why),
	}
	return none.encode([]byte(`{"findings":[]}`))
}

// ReadHead reads the Head of kept findings, which is their first line, written by any version. It reads HeadBytes of
// kept; if kept is a bufio.Reader of that size, the report can be read from it afterwards. The line is not trusted: the
// error is errNotKept if it is too long, is no Head, or is about another session than ref.
func ReadHead(kept io.Reader, ref layout.Session) (h Head, err error) {
	line, err := bufio.NewReaderSize(kept, HeadBytes).ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
		return h, fmt.Errorf("read how %s ended: %w", ref, err)
	}
	if err != nil || json.Unmarshal(line, &h) != nil {
		return Head{}, fmt.Errorf("how %s ended: %w", ref, errNotKept)
	}
	known := slices.Contains(catalog.Outcomes, h.Outcome)
	if h.Version > KeptVersion && !known {
		// A later version may know more outcomes. If its findings were refused here, this version would compute them
		// again, and the later version again after it.
		h.Outcome, known = catalog.Unknown, true
	}
	if h.Version < 1 || h.GivenUp < 0 || h.Session != ref.String() || !known {
		return Head{}, fmt.Errorf("how %s ended: %w", ref, errNotKept)
	}
	h.Cause = shortLine(h.Cause)
	if u := h.Used; u != nil && (u.CPU < 0 || u.GPU < 0 || u.Memory < 0) {
		h.Used = nil
	}
	return h, nil
}

// Covers reports whether nothing was stored of the session after the state that the report describes. lastWrite is when
// the session's newest object was stored.
func (h Head) Covers(lastWrite time.Time) bool { return !lastWrite.After(h.Stored) }

// TriedBy is the newest KeptVersion that computed the findings, or tried to and gave up.
func (h Head) TriedBy() int { return max(h.Version, h.GivenUp) }

// isCurrent reports whether the report is about the session as it is now. It may also be about the session before some
// of its objects were removed, such as old logs: then it knows more than what is left does.
func (h Head) isCurrent(s *session.Session) bool {
	wasRemoved := s.Listed() && s.ObjectCount() < h.Objects
	return h.Covers(s.LastStored()) && (wasRemoved || h.Of == moment.StateOf(s))
}

// UpToDate reports whether the kept findings describe the session as it is now, by today's rules or later ones. If this
// version gave up finding them out, it tries again here, where somebody has the session loaded.
func UpToDate(kept io.Reader, s *session.Session) (bool, error) {
	h, err := ReadHead(kept, s.Ref)
	if errors.Is(err, errNotKept) {
		return false, nil
	}
	return err == nil && h.Version >= KeptVersion && h.isCurrent(s), err
}

// readKept returns the kept report of a session; nil if there is none, or if it cannot be used.
func (f Reader) readKept(ctx context.Context, r *moment.Moment) *Report {
	report, err := f.openKept(ctx, r.Session.Ref, func(h Head) bool {
		return h.Version == KeptVersion && h.isCurrent(r.Session)
	}, r.Memory)
	if err == nil {
		return report
	}
	if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errNotKept) && context.Cause(ctx) == nil {
		r.Log.WithError(err).WithField("session", r.Session.Ref.String()).Warn(
			"cannot use a session's kept findings; they are computed again")
	}
	return nil
}

// openKept returns the kept report of a session if accepts returns true for its Head; otherwise the error is
// errNotKept.
func (f Reader) openKept(ctx context.Context, ref layout.Session, accepts func(Head) bool,
	memory *budget.Budget) (report *Report, err error) {
	if f.Kept == nil {
		return nil, errNotKept
	}
	err = guard.CatchPanic("the kept findings of "+ref.String(), func() error {
		kept, err := f.Kept(ctx, ref, MaxKeptBytes)
		if err != nil {
			return err
		}
		defer func() { _ = kept.Close() }()
		report, err = decode(ctx, kept, ref, accepts, memory)
		return err
	})
	return report, err
}

// OfListed returns the kept report of a session that is only listed and not loaded: lastWrite is when its newest object
// was stored. If this version gave up computing the findings, the report is that of an earlier version, or has nothing
// but a summary that says why.
func (f Reader) OfListed(ctx context.Context, ref layout.Session, lastWrite time.Time, memory *budget.Budget) (*Report,
	error) {
	return f.openKept(ctx, ref, func(h Head) bool { return h.Covers(lastWrite) }, memory)
}

// decode reads the kept report of a session if accepts returns true for its Head, and if this version was the last to
// compute it, or to give up. It reserves memory while it decodes. The error is errNotKept if there is no such report.
func decode(
	ctx context.Context, kept io.Reader, ref layout.Session, accepts func(Head) bool, memory *budget.Budget,
) (*Report, error) {
	in := bufio.NewReaderSize(kept, HeadBytes)
	h, err := ReadHead(in, ref)
	if err != nil {
		return nil, err
	}
	switch {
	case h.TriedBy() != KeptVersion || !accepts(h):
		return nil, errNotKept
	case h.Of == "": // EncodeGivenUp wrote it: there is no report, only the cause
		return &Report{
			Session: ref.Name, Outcome: h.Outcome, Summary: h.Cause,
			Findings: []*Finding{}, Jobs: []Job{}, Missing: []string{},
		}, nil
	}
	limit := int64(maxMemory)
	// at most half of what all requests may use, so that other reports can be read at the same time
	if share := memory.Size(budget.Work) / 2; share > 0 {
		limit = min(limit, share)
	}
	if h.Bytes < 0 || h.Bytes > min(maxKept, limit/2) {
		return nil, fmt.Errorf("the findings of %s have %d bytes, which is too large", ref, h.Bytes)
	}
	release, err := memory.Reserve(ctx, budget.Work, limit)
	if err != nil {
		return nil, err
	}
	defer release()
	text := make([]byte, h.Bytes)
	if _, err := io.ReadFull(in, text); err != nil {
		return nil, fmt.Errorf("read the findings of %s: %w", ref, err)
	}
	if keptMemory(text) > limit {
		return nil, fmt.Errorf("the findings of %s take too much memory", ref)
	}
	report := &Report{}
	if err := json.Unmarshal(text, report); err != nil {
		return nil, fmt.Errorf("read the findings of %s: %w", ref, err)
	}
	if err := report.check(ref); err != nil {
		return nil, fmt.Errorf("the findings of %s: %w", ref, err)
	}
	return report, nil
}

// keptMemory estimates how many bytes of memory a report and its text take at most.
func keptMemory(text []byte) int64 {
	const object, element = 400, 32 // bytes; the largest object is a Finding
	return 3*int64(len(text)) + object*int64(bytes.Count(text, []byte("{"))) +
		element*int64(bytes.Count(text, []byte(",")))
}

// check returns an error unless a report that was read from the store is like one that was computed: it is of this
// session, each list is there and no longer than its limit, each kind is known, and no link leads out of the session's
// own pages.
func (r *Report) check(ref layout.Session) error {
	base := "/" + ref.Path()
	if r.Session != ref.Name || !slices.Contains(catalog.Outcomes, r.Outcome) || r.Findings == nil ||
		r.Missing == nil || len(r.Findings) > maxFindings+len(helps().Kinds) || len(r.Jobs) > maxJobs {
		return errors.New("not a report of this session")
	}
	for _, j := range r.Jobs {
		if !slices.Contains(catalog.Outcomes, j.Outcome) || j.Findings == nil || len(j.Findings) > maxOfJob {
			return errors.New("a job is not whole")
		}
	}
	for _, f := range r.Findings {
		if f == nil || f.Because == nil || f.Entities == nil || f.Evidence == nil || len(f.Entities) > maxEntities ||
			len(f.Evidence) > maxEvidence {
			return errors.New("a finding is not whole")
		}
		if _, known := helps().Kinds[f.Kind]; !known || !slices.Contains(Severities, f.Severity) || !isDocs(f.Docs) {
			return fmt.Errorf("a finding of the kind %.40q is not known", f.Kind)
		}
		elsewhere := func(link string) bool { return link != "" && !strings.HasPrefix(link, base) }
		if slices.ContainsFunc(f.Entities, func(e Entity) bool { return elsewhere(e.Link) }) ||
			slices.ContainsFunc(f.Evidence, func(e Evidence) bool { return elsewhere(e.Link) }) {
			return errors.New("a link leads elsewhere")
		}
	}
	return nil
}
