package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const (
	// packGrowth is about how many times larger than a stored pack its columns are at most, and its rows in most cases;
	// maxColumns is the limit that packs sets for the columns.
	packGrowth, maxColumns = 12, 64 << 20
	// rowBytes is about how much memory a session takes while its day is added, jobBytes what each of its jobs does.
	rowBytes, jobBytes = 700, 128
	// maxCached is how many bytes of rows are cached for the next report.
	maxCached = 20_000 * rowBytes
)

// dayRows are the facts of one day's sessions, from packs.
type dayRows map[layout.Session]packs.Facts

// maxLists is how often the packs of a day are read when some of them are joined into another one after they were
// listed.
const maxLists = 3

// readDay returns the merged facts of a day's packs, which are listed. Their memory is charged to f.Memory until the
// caller calls release. If packs are joined meanwhile, it lists and reads them again; if that happens maxLists times,
// sessions may be missing.
func (f *Fleet) readDay(ctx context.Context, day time.Time, listed []packs.Pack) (rows dayRows, release func(),
	err error) {
	for tries := 1; ; tries++ {
		rows, removed, release, err := f.readPacks(ctx, day, listed)
		if err != nil {
			return nil, nil, fmt.Errorf("read the packs of %s: %w", day.Format(time.DateOnly), err)
		}
		if !removed || tries == maxLists {
			return rows, release, nil
		}
		release()
		if listed, err = f.Packs.ListDay(ctx, day); err != nil {
			return nil, nil, err
		}
	}
}

// readPacks reads a day's packs for readDay, or takes their facts from the cache, whose memory is not charged again.
// removed says that one of the packs was removed since it was listed: another pack has its facts, so the rows may be
// incomplete. Such rows are not cached, nor are those without a damaged pack, which the catalog will replace.
func (f *Fleet) readPacks(ctx context.Context, day time.Time, listed []packs.Pack) (rows dayRows, removed bool,
	release func(), err error) {
	if len(listed) == 0 {
		return nil, false, func() {}, nil
	}
	version := versionOf(listed)
	if cached, ok := f.rowsOfDays().Get(day); ok && cached.version == version {
		return cached.rows, false, func() {}, nil
	}
	var stored, largest int64
	for _, pack := range listed {
		stored, largest = stored+pack.Size, max(largest, pack.Size)
	}
	columns := largest + min(packGrowth*largest, maxColumns) // memory to decode one pack
	// limit is the memory for the rows. If they take more, they are read again with twice the limit.
	for limit := min(packGrowth*stored, maxDay); ; limit = min(2*limit, maxDay) {
		if release, err = f.Memory.Reserve(ctx, budget.Work, columns+limit); err != nil {
			return nil, false, nil, err
		}
		read := cachedDay{version: version, rows: make(dayRows)}
		removed, damaged, err := f.mergePacks(ctx, listed, &read, limit)
		if err == nil && !removed && !damaged {
			f.rowsOfDays().Put(day, read)
		}
		if err == nil {
			return read.rows, removed, release, nil
		}
		release()
		if !errors.Is(err, errTooLarge) || limit == maxDay {
			return nil, false, nil, err
		}
	}
}

// mergePacks merges the rows of packs into those of a day. The error is errTooLarge if these take more than limit
// bytes. removed says that a pack was removed since it was listed. damaged says that a pack is damaged; it is skipped,
// and the catalog reads its sessions again.
func (f *Fleet) mergePacks(ctx context.Context, listed []packs.Pack, day *cachedDay, limit int64) (removed,
	damaged bool, err error) {
	shared := make(texts)
	for _, pack := range listed {
		err := f.Packs.Read(ctx, pack, func(row *packs.Facts) error {
			facts := shared.reportedPart(row)
			if before, ok := day.rows[row.Ref]; ok {
				facts = packs.Merge(before, facts)
			}
			day.rows[facts.Ref] = facts
			if day.bytes += rowBytes + jobBytes*int64(len(row.Jobs)); day.bytes > limit {
				return errTooLarge
			}
			return ctx.Err()
		})
		switch {
		case errors.Is(err, os.ErrNotExist):
			removed = true
		case errors.Is(err, packs.ErrDamaged):
			damaged = true
		case err != nil:
			return false, false, err
		}
	}
	return removed, damaged, nil
}

// maxDay bounds the memory of a day's rows, in bytes.
const maxDay = 256 << 20

var errTooLarge = errors.New("the day has more sessions and jobs than the server can add up")

// versionOf returns a text that identifies the packs and their contents.
func versionOf(listed []packs.Pack) string {
	var b strings.Builder
	for _, pack := range listed {
		fmt.Fprintf(&b, "%s %d %s\n", pack.Key, pack.Size, pack.ETag)
	}
	return b.String()
}

// texts are the texts of a day's rows, each stored once: most sessions of a day share owners, errors and jobs with
// others.
type texts map[string]string

// intern returns the one copy of a text, so that the larger text that it was a part of is not kept in memory. It is cut
// to maxText bytes; in packs that the server wrote, no text is longer.
func (t texts) intern(text string) string {
	text = text[:min(len(text), maxText)]
	if shared, ok := t[text]; ok {
		return shared
	}
	text = strings.Clone(text)
	t[text] = strings.ToValidUTF8(text, "")
	return t[text]
}

const maxText = 300

// reportedPart returns a copy of a row with only the parts that a report adds up, in texts of t. Of the findings it has
// the first error.
func (t texts) reportedPart(f *packs.Facts) packs.Facts {
	k := packs.Facts{Ref: f.Ref, Seen: f.Seen, Start: f.Start, End: f.End, LastWrite: f.LastWrite,
		Summary: packs.Summary{Outcome: t.intern(f.Outcome)}, Version: f.Version, Hours: t.hours(f.Hours)}
	k.Ref.Namespace, k.Ref.Cluster = t.intern(f.Ref.Namespace), t.intern(f.Ref.Cluster)
	k.Ref.Name = strings.Clone(f.Ref.Name)
	k.Ref.OwnerKind, k.Ref.OwnerName = t.intern(f.Ref.OwnerKind), t.intern(f.Ref.OwnerName)
	if f.Findings != nil {
		k.Findings = []packs.Finding{} // known, as for packs.Merge nil is not
	}
	for _, finding := range f.Findings {
		if finding.Severity == "error" {
			k.Findings = []packs.Finding{{Kind: t.intern(finding.Kind), Severity: "error",
				Signature: t.intern(finding.Signature), Title: t.intern(finding.Title)}}
			break
		}
	}
	if f.Jobs != nil {
		k.Jobs = make([]packs.Job, len(f.Jobs))
	}
	for i := range f.Jobs {
		j := &f.Jobs[i]
		k.Jobs[i] = packs.Job{Name: t.intern(nameOf(j)), User: t.intern(j.User), Status: t.intern(j.Status),
			Start: j.Start, End: j.End}
	}
	return k
}

// hours returns hours with labels in texts of t. Labels that prices cannot depend on are left out, and so are the hours
// of kinds of nodes that are no sane amounts.
func (t texts) hours(h *packs.Hours) *packs.Hours {
	if h == nil || len(h.Nodes) == 0 {
		return h
	}
	var copied packs.Hours
	for _, n := range h.Nodes {
		if !packs.Sane(n.Each()) {
			continue
		}
		labels := make(map[string]string, len(n.Labels))
		for _, name := range packs.PriceLabels {
			if value := n.Labels[name]; value != "" {
				labels[name] = t.intern(value)
			}
		}
		copied.AddNode(labels, n.Amounts)
	}
	copied.Amounts, copied.Used = h.Amounts, h.Used // replaces the sum of AddNode, which lacks nodes without labels
	return &copied
}

// nameOf returns what the runs of a job have in common: the name in its metadata, otherwise its entrypoint, otherwise
// its submission.
func nameOf(j *packs.Job) string { return cmp.Or(j.Name, j.Entrypoint, j.Submission) }

// cachedDay are the rows of a day for the next report.
type cachedDay struct {
	version string
	rows    dayRows // not changed any more
	bytes   int64
}

// rowsOfDays returns the cache of the rows of the days that were used last.
func (f *Fleet) rowsOfDays() *cache.Cache[time.Time, cachedDay] {
	f.once.Do(func() {
		f.cache = cache.New[time.Time](maxCached, cache.Forever, func(d cachedDay) int64 { return d.bytes })
	})
	return f.cache
}
