package packs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/rayhistory/historyserver/internal/tablefile"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

var day = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// sample is what is known of the n-th session of the day.
func sample(n int) Facts {
	start := day.Add(time.Duration(n) * time.Minute)
	return Facts{
		Ref: layout.Session{Namespace: "default", Cluster: fmt.Sprintf("lab-%d", n%7),
			Name: start.Format("session_2006-01-02_15-04-05_") + fmt.Sprintf("%06d_1", n)},
		Seen: start.Add(2 * time.Hour), Start: start, End: start.Add(time.Hour), LastWrite: start.Add(time.Hour),
		Summary: Summary{OwnerKind: "RayJob", OwnerName: "nightly", RayVersion: "2.60.0", Bytes: 1 << 40, Objects: 12,
			Nodes: 3},
	}
}

// detailed is a sample with everything known.
func detailed(n int) Facts {
	f := sample(n)
	f.Outcome, f.Cause, f.Version = "failed", "Task train failed: ValueError: Bad <shape>", 16
	f.Findings = []Finding{{Kind: "task_failed", Severity: "error", Signature: "task_failed Task train failed",
		Title: f.Cause, Count: 3}}
	f.Jobs = []Job{{ID: "01000000", Submission: "raysubmit_ABC", Status: "FAILED", Entrypoint: "python Train.py",
		Message: "exit 1", User: "ana", Start: 1, End: 2}}
	f.Hours = &Hours{Amounts: Amounts{Node: 3, CPU: 24, GPU: 1.5, Memory: 96}, Used: &Used{CPU: 2}}
	f.Labels = map[string]string{"team": "Search"}
	return f
}

func open(t testing.TB) Packs {
	t.Helper()
	store := storetest.New()
	return Packs{Store: store, Root: "log"}
}

func (p Packs) mustList(t testing.TB) []Pack {
	t.Helper()
	return must.Get(p.List(t.Context()))(t)
}

// read merges what all packs tell; packs that cannot be used are skipped.
func (p Packs) read(t testing.TB, details bool) map[layout.Session]Facts {
	t.Helper()
	rows := make(map[layout.Session]Facts)
	for _, pack := range p.mustList(t) {
		err := p.readRows(t.Context(), pack, details, func(f *Facts) error {
			if before, ok := rows[f.Ref]; ok {
				rows[f.Ref] = Merge(before, *f)
			} else {
				rows[f.Ref] = *f
			}
			return nil
		})
		must.True(t, err == nil || errors.Is(err, ErrDamaged), err)
	}
	return rows
}

func TestUnknownIsNotNone(t *testing.T) {
	p := open(t)
	unknown, none, all := sample(1), sample(2), detailed(3)
	none.Findings, none.Jobs, none.Hours, none.Labels = []Finding{}, []Job{}, &Hours{}, map[string]string{}
	unnamed := Facts{Ref: layout.Session{Version: layout.V17, Namespace: "prod", Cluster: "svc-x",
		OwnerKind: "rayservice", OwnerName: "svc", Name: "session_2026-11-20_x"}}
	written := []Facts{unknown, none, all, unnamed}
	must.OK(t, p.Append(t.Context(), day, nil, written))
	rows := p.read(t, true)
	for _, want := range written {
		got := rows[want.Ref]
		want.Text = got.Text
		says.True(t, reflect.DeepEqual(got, want), "got  %+v\nwant %+v", got, want)
	}
	if text := rows[all.Ref].Text; !strings.Contains(text,
		"finding=task_failed\nuser=ana\nteam=search\n\nraysubmit_abc\n01000000\npython train.py\n") ||
		!strings.Contains(text, "bad <shape>") || !slices.Equal(Tags(text), []string{"finding=task_failed", "user=ana", "team=search"}) {
		t.Errorf("searches look in %q", text)
	}
	brief := p.read(t, false)[all.Ref]
	says.True(t, brief.Text == rows[all.Ref].Text && brief.Outcome == "failed" && brief.Jobs == nil &&
		brief.Hours == nil, "without details: %+v", brief)
}

func TestMergeIsTheSameInAnyOrder(t *testing.T) {
	early, late := detailed(1), sample(1)
	late.Seen, late.Bytes = early.Seen.Add(time.Hour), 7
	if a, b := Merge(early, late), Merge(late, early); !reflect.DeepEqual(a, b) || a.Bytes != 7 ||
		a.Outcome != "failed" || len(a.Jobs) != 1 || a.Hours == nil || a.Labels == nil {
		t.Errorf("a later look that knows less: %+v, or %+v", a, b)
	}
	late.LastWrite = late.LastWrite.Add(time.Minute)
	a := Merge(early, late)
	says.True(t, a.Outcome == "" && a.Jobs == nil, "what was known before something was stored: %+v", a)
}

// TestMergeByClocksThatDiffer: what a server whose clock was ahead saw does not count against what was stored, or found
// out by later rules, since.
func TestMergeByClocksThatDiffer(t *testing.T) {
	stale := detailed(1)
	stale.Seen, stale.Version = stale.Seen.AddDate(1, 0, 0), 4
	stored, explained := detailed(1), detailed(1)
	stored.LastWrite, stored.Bytes = stored.LastWrite.Add(time.Minute), 7
	explained.Version, explained.Outcome = 5, "succeeded"
	explained.Hours = &Hours{Amounts: Amounts{CPU: 2}, Used: &Used{CPU: 1}}
	explained.Cause, explained.Findings = "", nil
	stale.Text, explained.Text = stale.searchText(), explained.searchText()
	for _, pair := range [][2]Facts{{stale, stored}, {stored, stale}} {
		got := Merge(pair[0], pair[1])
		says.True(t, reflect.DeepEqual(got, stored), "%+v, want %+v", got, stored)
	}
	for _, pair := range [][2]Facts{{stale, explained}, {explained, stale}, {Merge(stale, explained), stale},
		{explained, Merge(stale, explained)}} {
		if got := Merge(pair[0], pair[1]); got.Outcome != "succeeded" || got.Version != 5 || got.Hours.Used.CPU != 1 ||
			!got.Seen.Equal(stale.Seen) || got.Text != explained.Text {
			t.Errorf("%+v", got)
		}
	}
}

// TestJoinedText: what is joined of two rows, of which each knows what the other does not, is found by what counts of
// both.
func TestJoinedText(t *testing.T) {
	p := open(t)
	earlier, explained := detailed(1), sample(1)
	explained.Outcome, explained.Version, explained.Cause = "failed", earlier.Version+1, "Node n died"
	explained.Findings = []Finding{{Kind: "node_died", Severity: "error", Title: explained.Cause}}
	for _, row := range []Facts{earlier, explained} {
		must.OK(t, p.Append(t.Context(), day, p.mustList(t), []Facts{row}))
	}
	must.Get(p.Join(t.Context(), day, func(layout.Session) bool { return false }))(t)
	want := earlier
	want.Outcome, want.Version, want.Cause = explained.Outcome, explained.Version, explained.Cause
	want.Findings = explained.Findings
	says.Equal(t, p.read(t, true)[earlier.Ref].Text, want.searchText())
}

func TestWritersOfADay(t *testing.T) {
	p := open(t)
	must.OK(t, p.Append(t.Context(), day, nil, []Facts{sample(1), sample(2)}))
	// A second writer knows of no packs. It finds the number taken, and stores what the other did not.
	must.OK(t, p.Append(t.Context(), day, nil, []Facts{sample(2), sample(3), detailed(1)}))
	must.OK(t, p.Append(t.Context(), day, nil, []Facts{sample(3)}))
	packs := p.mustList(t)
	must.True(t, len(packs) == 2 && packs[0].N == 1 && packs[1].N == 2, "packs %v", packs)
	if rows := p.read(t, false); len(rows) != 3 || rows[sample(1).Ref].Outcome != "failed" {
		t.Errorf("rows %v", rows)
	}
	gone := sample(3).Ref
	must.Get(p.Join(t.Context(), day, func(ref layout.Session) bool { return ref == gone }))(t)
	rows := p.read(t, true)
	if left := p.mustList(t); len(left) != 1 || left[0].N != 3 || len(rows) != 2 || len(rows[sample(1).Ref].Jobs) != 1 {
		t.Errorf("joined: %v, rows %v", left, rows)
	}
	// A day without sessions has no packs.
	must.Get(p.Join(t.Context(), day, func(layout.Session) bool { return true }))(t)
	left := p.mustList(t)
	says.True(t, len(left) == 0, "packs of no sessions: %v", left)
}

// busy is a store in which another writer takes so many numbers first.
func busy(store blob.Store, left int) blob.Store {
	return &storetest.Hooked{Store: store, Before: storetest.On(storetest.Create,
		func(ctx context.Context, key string) error {
			if left == 0 {
				return nil
			}
			left--
			data, err := encode([]Facts{sample(100 + left)})
			if err != nil {
				return err
			}
			return store.Create(ctx, key, bytes.NewReader(data))
		})}
}

func TestJoinGivesWayToAnotherWriter(t *testing.T) {
	p := open(t)
	for n := range 3 {
		must.OK(t, p.Append(t.Context(), day, p.mustList(t), []Facts{sample(n)}))
	}
	contended := Packs{Store: busy(p.Store, 1), Root: p.Root}
	says.ErrorIs(t, says.Err(contended.Join(t.Context(), day, func(layout.Session) bool { return false })), ErrBusy,
		"beside another writer")
	rows := p.read(t, false)
	says.True(t, len(rows) == 4 && len(p.mustList(t)) == 4, "%d rows in %d packs", len(rows), len(p.mustList(t)))
	contended.Store = busy(p.Store, 3)
	must.OK(t, contended.Append(t.Context(), day, nil, []Facts{sample(50)}))
	_, ok := p.read(t, false)[sample(50).Ref]
	says.True(t, ok, "what was appended beside busy writers is not there")
}

// TestJoinThatCannotRemove: packs that are joined but must not be removed are not joined again, until they may be.
func TestJoinThatCannotRemove(t *testing.T) {
	p := open(t)
	for n := range 3 {
		must.OK(t, p.Append(t.Context(), day, p.mustList(t), []Facts{detailed(n), sample(n + 1)}))
	}
	keeping := Packs{Root: p.Root, Store: &storetest.Hooked{Store: p.Store, Before: storetest.On(storetest.Delete,
		func(context.Context, string) error { return blob.ErrPermission })}}
	none := func(layout.Session) bool { return false }
	for range 3 {
		says.ErrorIs(t, says.Err(keeping.Join(t.Context(), day, none)), blob.ErrPermission,
			"without the right to remove")
	}
	says.Equal(t, len(p.mustList(t)), 4, "packs: three, and the one that joins them")
	before := p.read(t, true)
	left := must.Get(p.Join(t.Context(), day, none))(t)
	if all := p.mustList(t); left != 1 || len(all) != 1 || !reflect.DeepEqual(p.read(t, true), before) {
		t.Errorf("with the right to remove: %d packs, %v", left, all)
	}
}

// TestJoinsAtOnce: of two that join a day at once, of which one knows that a session is removed, each removes packs,
// but none that alone has a row.
func TestJoinsAtOnce(t *testing.T) {
	p := open(t)
	kept, gone := sample(1), sample(2)
	// as left by one that joined the first two and could not remove them
	for _, rows := range [][]Facts{{kept}, {gone}, {kept, gone}} {
		must.OK(t, p.Append(t.Context(), day, p.mustList(t), rows))
	}
	// The other joins them while the first begins to remove.
	var began bool
	first := Packs{Root: p.Root, Store: &storetest.Hooked{Store: p.Store, Before: storetest.On(storetest.Delete,
		func(ctx context.Context, _ string) error {
			if began {
				return nil
			}
			began = true
			_, err := p.Join(ctx, day, func(layout.Session) bool { return false })
			return err
		})}}
	_, err := first.Join(t.Context(), day, func(ref layout.Session) bool { return ref == gone.Ref })
	_, ok := p.read(t, true)[kept.Ref]
	says.True(t, ok && err == nil && began, "the row is lost in %v: %v", p.mustList(t), err)
}

func TestDamagedPacks(t *testing.T) {
	p := open(t)
	must.OK(t, p.Append(t.Context(), day, nil, []Facts{detailed(1)}))
	whole := p.mustList(t)[0]
	body, err := p.Store.Get(t.Context(), whole.Key, 0, -1)
	must.OK(t, err)
	data, err := io.ReadAll(body)
	_ = body.Close()
	must.OK(t, err)
	for n, damaged := range [][]byte{nil, []byte("PAR1"), data[:len(data)/2], data[len(data)/2:],
		bytes.Repeat([]byte{0xff}, 100)} {
		must.OK(t, p.Store.Create(t.Context(), layout.PackKey(p.Root, day, 2+n), bytes.NewReader(damaged)))
	}
	rows := p.read(t, true)
	says.True(t, len(rows) == 1, "rows beside damaged packs: %v", rows)
	must.Get(p.Join(t.Context(), day, func(layout.Session) bool { return false }))(t)
	left := p.mustList(t)
	says.True(t, len(left) == 1 && len(p.read(t, true)) == 1, "damaged packs stay: %v", left)
	whole.Key = layout.PackKey(p.Root, day, 2)
	says.ErrorIs(t, p.ReadBrief(t.Context(), whole, nil), os.ErrNotExist, "a pack that was removed")
}

// TestRowGroupsAtOnePlace: a pack whose footer names the same bytes again and again is refused before any is read.
func TestRowGroupsAtOnePlace(t *testing.T) {
	var facts []Facts
	for n := range 1000 {
		facts = append(facts, sample(n))
	}
	pack := must.Get(encode(facts))(t)
	end := len(pack) - tablefile.TailBytes
	begin := end - int(must.Get(tablefile.FooterSize(pack, int64(len(pack))))(t))
	for name, c := range map[string]struct {
		times int
		plain int64 // bytes of a group's first text, as the footer says; 0: as it is
		rows  int
		err   error
	}{
		"few": {10, 0, 10 * len(facts), nil}, "too many rows": {400, 0, 0, errTooLarge},
		"too many bytes": {6, maxGroupBytes - 4<<20, 0, errTooLarge},
	} {
		var footer format.FileMetaData
		must.OK(t, thrift.Unmarshal(new(thrift.CompactProtocol), pack[begin:end], &footer))
		for i := range footer.RowGroups[0].Columns {
			if m := &footer.RowGroups[0].Columns[i].MetaData; c.plain > 0 && m.PathInSchema[0] == textColumns[0] {
				m.TotalUncompressedSize = c.plain
			}
		}
		footer.RowGroups = slices.Repeat(footer.RowGroups, c.times)
		footer.NumRows *= int64(c.times)
		text := must.Get(thrift.Marshal(new(thrift.CompactProtocol), &footer))(t)
		large := append(slices.Clone(pack[:begin]), text...)
		large = append(binary.LittleEndian.AppendUint32(large, uint32(len(text))), pack[len(pack)-4:]...)
		rows := 0
		err := decode(large, false, func(*Facts) error { rows++; return nil })
		says.True(t, errors.Is(err, c.err) && rows == c.rows, "%s: %d rows, %v", name, rows, err)
	}
}

// What a session's metadata says about it must not keep others of its day from being read.
func TestOddFactsDamageNoPack(t *testing.T) {
	odd := map[string]func(*Facts){
		"begins before 1970": func(f *Facts) { f.Start = time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)) },
		"ends after all": func(f *Facts) {
			f.End = time.Date(9999, 12, 31, 23, 0, 0, 0,
				time.FixedZone("", -7200))
		},
		"fewer than no nodes": func(f *Facts) { f.Nodes = -1 },
		"countless nodes":     func(f *Facts) { f.Nodes = math.MaxInt },
		"infinite hours":      func(f *Facts) { f.Hours = &Hours{Amounts: Amounts{CPU: math.Inf(1)}} },
		"hours of no number":  func(f *Facts) { f.Hours = &Hours{Amounts: Amounts{Node: math.NaN()}} },
		"infinitely used":     func(f *Facts) { f.Hours = &Hours{Used: &Used{CPU: math.Inf(1)}} },
		"control characters": func(f *Facts) {
			long := strings.Repeat("\x01", maxShort)
			f.Jobs = slices.Repeat([]Job{{ID: long, Submission: long, Status: long, Entrypoint: long, Message: long,
				User: long, Name: long}}, maxJobs)
		},
		"quotation marks": func(f *Facts) {
			long := strings.Repeat(`"`, maxShort)
			f.Jobs = slices.Repeat([]Job{{ID: long, Submission: long, Status: long, Entrypoint: long, Message: long,
				User: long, Name: long}}, maxJobs)
		},
	}
	for name, change := range odd {
		t.Run(name, func(t *testing.T) {
			p := open(t)
			changed := detailed(1)
			change(&changed)
			must.OK(t, p.Append(t.Context(), day, nil, []Facts{changed, detailed(2)}))
			rows := p.read(t, true)
			says.True(t, len(rows) == 2 && len(rows[detailed(2).Ref].Jobs) == 1, "%d of 2 sessions are read", len(rows))
		})
	}
}

// Many sessions with much to tell are written so that they can be read: in row groups and packs of bounded size.
func TestLargeFactsAreReadAgain(t *testing.T) {
	p := open(t)
	const n = 280
	long := strings.Repeat("python train.py ", 18)
	all := make([]Facts, n)
	for i := range all {
		all[i] = detailed(i)
		all[i].Jobs = make([]Job, maxJobs)
		for j := range all[i].Jobs {
			all[i].Jobs[j] = Job{Submission: fmt.Sprintf("raysubmit_%d", j), Entrypoint: long, Message: long,
				User: long, Name: long}
		}
	}
	for _, part := range [][]Facts{all[:n-1], all[n-1:]} {
		must.OK(t, p.Append(t.Context(), day, p.mustList(t), part))
	}
	gone := func(ref layout.Session) bool { return ref == all[0].Ref }
	keeping := Packs{Root: p.Root, Store: &storetest.Hooked{Store: p.Store, Before: storetest.On(storetest.Delete,
		func(context.Context, string) error { return blob.ErrPermission })}}
	says.ErrorIs(t, says.Err(keeping.Join(t.Context(), day, gone)), blob.ErrPermission, "without the right to remove")
	stored := len(p.mustList(t))
	_, err := keeping.Join(t.Context(), day, gone)
	says.True(t, errors.Is(err, blob.ErrPermission) && len(p.mustList(t)) == stored,
		"%d packs, %d after a second try: %v", stored, len(p.mustList(t)), err)
	left := must.Get(p.Join(t.Context(), day, gone))(t)
	if rows := p.read(t, true); len(rows) != n-1 || left != len(p.mustList(t)) || left != 2 {
		t.Errorf("joined: %d of %d sessions are read from %d packs", len(rows), n-1, left)
	}
}

func FuzzDecode(f *testing.F) {
	for _, facts := range [][]Facts{nil, {sample(1)}, {detailed(1).Bounded(), sample(2)}} {
		data := must.Get(encode(facts))(f)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, details := range []bool{false, true} {
			_ = decode(data, details, func(got *Facts) error {
				again := got.Bounded()
				says.OK(t, says.Err(rowOf(&again)), "what was read cannot be written")
				says.OK(t, got.Ref.Check(), "a session %v", got.Ref)
				return nil
			})
		}
	})
}

// TestMissingColumns: a pack that lacks any column, as one of an earlier version may, counts as none for every reader.
func TestMissingColumns(t *testing.T) {
	of := reflect.TypeFor[row]()
	r := reflect.ValueOf(must.Get(rowOf(ptr(detailed(1).Bounded())))(t))
	for missing := range of.NumField() {
		if slices.Contains([]string{"Namespace", "Cluster", "Session"}, of.Field(missing).Name) {
			continue // for other readers: Layout tells them
		}
		var columns []reflect.StructField
		for i := range of.NumField() {
			if i != missing {
				columns = append(columns, of.Field(i))
			}
		}
		earlier := reflect.New(reflect.StructOf(columns))
		for _, f := range columns {
			earlier.Elem().FieldByName(f.Name).Set(r.FieldByName(f.Name))
		}
		var buf bytes.Buffer
		out := parquet.NewWriter(&buf, parquet.SchemaOf(earlier.Interface()),
			parquet.KeyValueMetadata(versionKey, formatVersion))
		must.OK(t, errors.Join(out.Write(earlier.Interface()), out.Close()))
		for _, details := range []bool{false, true} {
			err := decode(buf.Bytes(), details, func(*Facts) error { return nil })
			says.True(t, errors.Is(err, tablefile.ErrMalformed), "without %s: %v", of.Field(missing).Name, err)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// TestFactsAreComplete: the facts that tests store and read again have each field, so that none is forgotten.
func TestFactsAreComplete(t *testing.T) {
	made := map[string]bool{"FailedJobs": true, "Text": true} // of running sessions; made of the others
	for _, name := range must.ZeroFields(detailed(1)) {
		says.True(t, made[name],
			"detailed does not set %s: do it, and add it to row and rowOf in row.go and to read.go", name)
	}
}
