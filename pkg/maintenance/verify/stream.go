package verify

import (
	"errors"

	"github.com/rayhistory/historyserver/pkg/chunks"
)

// tolerant reports the gaps of a stream and reads on. After a gap it returns a line end, so that the following bytes
// are not taken for the rest of a cut line.
type tolerant struct {
	*chunks.Reader
	verifier *verifier
}

// Read implements io.Reader.
func (t *tolerant) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	gap, isGap := errors.AsType[*chunks.Gap](err)
	if !isGap {
		return n, err
	}
	advice := ""
	if chunks.Changed(gap) {
		advice = ": verify again"
	}
	t.verifier.damaged(gap.Key, "%s%s", gap.What(), advice)
	p[0] = '\n'
	return 1, nil
}
