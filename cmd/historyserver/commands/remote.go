package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/client"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/server/logs"
)

// serverHistory is the history that a server shows to the user. history.go says what its methods return.
type serverHistory struct{ *client.Client }

// sessions implements history. The server filters, but does not know the forms of names: these are looked up here.
func (s serverHistory) sessions(ctx context.Context, names []string, f catalog.Filter) ([]catalog.Entry, error) {
	if len(names) == 0 {
		return s.Entries(ctx, f.Form())
	}
	found, err := catalog.Select(s.Lookup(ctx), names)
	if err != nil || !f.Narrows() {
		return found, err
	}
	passing, err := s.Entries(ctx, f.Form())
	if err != nil {
		return nil, err
	}
	return removeMissing(found, slices.Values(passing)), nil
}

// stored implements history.
func (s serverHistory) stored(ctx context.Context, name string) (e catalog.Entry, summary inventory.Summary,
	err error) {
	if e, err = findOne(s.Lookup(ctx), name); err == nil {
		err = s.Data(ctx, e.Ref.Path()+"api/history/stored", nil, &summary)
	}
	return e, summary, err
}

// findings implements history. It looks up the session, and the job by any of its names, and then asks for the report.
func (s serverHistory) findings(ctx context.Context, name, job string) (layout.Session, *findings.Report, error) {
	ref, err := s.Find(ctx, name)
	if err != nil {
		return ref, nil, err
	}
	var form url.Values
	if job != "" {
		found, err := s.Job(ctx, ref.Path(), job)
		if err != nil {
			return ref, nil, err
		}
		form = client.JobForm(found)
	}
	var report findings.Report
	err = s.Data(ctx, ref.Path()+"api/history/findings", form, &report)
	return ref, &report, err
}

// status implements history. The moment at becomes a part of the session's address.
func (s serverHistory) status(ctx context.Context, name, at string) (layout.Session, string, error) {
	ref, err := s.Find(ctx, name)
	if err != nil {
		return ref, "", err
	}
	path := "api/cluster_status"
	if at != "" {
		path = "at/" + url.PathEscape(at) + "/" + path
	}
	var status clusterStatus
	asText := url.Values{"format": {"1"}}
	err = s.Data(ctx, ref.Path()+path, asText, &status)
	return ref, status.Text, err
}

// compare implements history. If c.with is "", the server finds the session before.
func (s serverHistory) compare(ctx context.Context, c comparison) (*compare.Report, error) {
	ref, err := s.Find(ctx, c.session)
	if err != nil {
		return nil, err
	}
	form := c.Form()
	if c.with != "" {
		with, err := s.Find(ctx, c.with)
		if err != nil {
			return nil, err
		}
		form.Set("with", with.String())
	}
	var report compare.Report
	return &report, s.Data(ctx, ref.Path()+"api/history/compare", form, &report)
}

// fleet implements history.
func (s serverHistory) fleet(ctx context.Context, q fleet.Query, prices string) (*fleet.Report, error) {
	if prices != "" {
		return nil, settings.UsageError(errors.New("--prices: the server has its own; set its --prices, or read the store"))
	}
	var report fleet.Report
	return &report, s.Data(ctx, "api/history/fleet", q.Form(), &report)
}

// search implements history. It asks for one session's logs or, if the name is a cluster's, for those of all of its
// sessions. A name that is that of sessions of several clusters is an error. Only a record of the end says that the
// search was not cut off.
func (s serverHistory) search(ctx context.Context, name string, q *logQuery,
	emit func(logsearch.Record) error) error {
	n, err := catalog.ParseName(name)
	if err != nil {
		return err
	}
	found, err := n.All(s.Lookup(ctx))
	if err != nil {
		return err
	}
	first := found[0].Ref
	path := first.Path() + "api/history/search"
	switch other := slices.IndexFunc(found, func(e catalog.Entry) bool { return e.Ref.Cluster != first.Cluster }); {
	case n.Session == "" && other >= 0:
		return fmt.Errorf("%s made several clusters, and a server searches one at a time: name one, such as %s or %s",
			n, first.Cluster, found[other].Ref.Cluster)
	case n.Session == "" && len(found) > 1:
		path = "namespaces/" + url.PathEscape(first.Namespace) + "/clusters/" + url.PathEscape(first.Cluster) +
			"/api/history/search"
	case len(found) > 1:
		_, err := n.One(catalog.LookupIn(found)) // the error names the sessions
		return err
	}
	answer, err := s.Get(ctx, path, logs.SearchForm(&q.Query, q.from, q.to))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	records := jsonstream.New(answer.Body, maxRecord)
	for {
		var raw json.RawMessage
		if err := records.Value(&raw); err != nil {
			return fmt.Errorf("the search ended early (%w); its server's log says why", err)
		}
		record, err := logsearch.ParseRecord(raw)
		if err != nil {
			return err
		}
		if record == nil { // a newer server sends kinds of records that are not known here
			continue
		}
		if err := emit(record); err != nil {
			return err
		}
		if _, last := record.(*logsearch.End); last {
			return nil
		}
	}
}

// maxRecord bounds a record of a search, in bytes: a line and the lines around it have some kilobytes each.
const maxRecord = 1 << 20

// notes implements history. The server sends notes with its list of sessions, so one request is enough.
func (s serverHistory) notes(ctx context.Context, names []string) ([]noted, error) {
	all, err := s.Sessions(ctx, nil)
	if err != nil {
		return nil, err
	}
	entries, noteOf := make([]catalog.Entry, len(all)), map[layout.Session]notes.Note{}
	for i, session := range all {
		entries[i], noteOf[session.Ref] = session.Entry, session.Note
	}
	// A cluster's name selects all of its sessions.
	if entries, err = catalog.Select(catalog.LookupIn(entries), names); err != nil {
		return nil, err
	}
	var found []noted
	for _, e := range entries {
		if n := noteOf[e.Ref]; !n.Empty() {
			found = append(found, noted{nameOf(e.Ref), n})
		}
	}
	return found, nil
}

// annotate implements history. After an error the notes on earlier sessions are changed already.
func (s serverHistory) annotate(ctx context.Context, names []string, edit notes.Edit) (all []noted, err error) {
	entries, err := catalog.SelectSessions(s.Lookup(ctx), names)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		var n notes.Note
		if err := s.Post(ctx, e.Ref.Path()+"api/history/note", edit, &n); err != nil {
			return nil, err
		}
		if !n.Empty() {
			all = append(all, noted{nameOf(e.Ref), n})
		}
	}
	return all, nil
}
