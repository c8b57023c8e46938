package outcomes

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/findings"
)

const (
	// maxReport bounds the bytes that are read of a kept report, and maxFinding those of one finding.
	maxReport  = 4 << 20
	maxFinding = 1 << 20
)

// Ending returns a function that reads how a session ended from its kept findings, for catalog.Options.
func Ending(open Open) func(context.Context, catalog.Entry) (catalog.Ending, bool) {
	return func(ctx context.Context, e catalog.Entry) (catalog.Ending, bool) {
		ending := catalog.Ending{Findings: []packs.Finding{}}
		err := guard.Do("how "+e.Ref.String()+" ended", func() error {
			kept, err := open(ctx, e.Ref, findings.HeadBytes+maxReport)
			if err != nil {
				return err
			}
			defer func() { _ = kept.Close() }()
			in := bufio.NewReaderSize(kept, findings.HeadBytes)
			line, err := in.ReadSlice('\n')
			if err != nil {
				return err
			}
			head, err := findings.ReadHead(strings.NewReader(string(line)), e.Ref)
			if err != nil {
				return err
			}
			if head.Holds(e.LastWrite) {
				ending.Outcome, ending.Cause, ending.Used, ending.Version = head.Outcome, head.Cause, (*packs.Used)(head.Used), head.Version
			}
			return readFindings(in, &ending)
		})
		return ending, err == nil && ending.Outcome != ""
	}
}

// readFindings reads the findings that a pack keeps, one at a time.
func readFindings(r io.Reader, ending *catalog.Ending) error {
	type finding struct {
		Kind     string `json:"kind"`
		Severity string `json:"severity"`
		Title    string `json:"title"`
		Count    int    `json:"count"`
	}
	in := jsonstream.New(r, maxFinding)
	if err := in.Enter("findings"); err != nil {
		return err
	}
	err := jsonstream.Each(in, packs.MaxFindings, func(f finding) error {
		ending.Findings = append(ending.Findings, packs.Finding{Kind: f.Kind, Severity: f.Severity, Signature: signature(f.Kind, f.Title), Title: f.Title, Count: f.Count})
		return nil
	})
	if errors.Is(err, jsonstream.ErrMany) {
		return nil // as many as are kept
	}
	return err
}

// signature is the same for the same failure in other sessions: the kind, and the title with # for each number and hexadecimal ID.
func signature(kind, title string) string {
	var b strings.Builder
	b.WriteString(kind)
	for word := range strings.FieldsSeq(title) {
		b.WriteByte(' ')
		b.WriteString(general(word))
	}
	return b.String()
}

// general replaces the numbers in a word by #. A run of hexadecimal digits that contains a digit counts as a number if it has at least 8
// characters.
func general(word string) string {
	var b strings.Builder
	for i := 0; i < len(word); {
		hex, digits := 0, 0
		for i+hex < len(word) && strings.IndexByte("0123456789abcdefABCDEF", word[i+hex]) >= 0 {
			if c := word[i+hex]; c <= '9' {
				digits++
			}
			hex++
		}
		plain := 0
		for i+plain < len(word) && word[i+plain] >= '0' && word[i+plain] <= '9' {
			plain++
		}
		switch {
		case hex >= 8 && digits > 0:
			b.WriteByte('#')
			i += hex
		case plain > 0:
			b.WriteByte('#')
			i += plain
		default:
			b.WriteByte(word[i])
			i++
		}
	}
	return b.String()
}
