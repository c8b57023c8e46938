package snapshot

import (
	"context"
	"errors"
	"time"

	"github.com/rayhistory/historyserver/pkg/collector/internal/answer"
)

// refusedPause is the time until the next request to a URL whose answer was refused: the dashboard may not be Ray's any more.
const refusedPause = 10 * time.Minute

// maxWarned is the maximum number of URLs that are remembered because their refusal was logged.
const maxWarned = 1000

func isRefusal(err error) bool {
	var refusal *answer.Refusal
	return errors.As(err, &refusal)
}

// reportFailure counts and logs why an answer was not stored.
func (t *Taker) reportFailure(ctx context.Context, url string, err error) {
	var refusal *answer.Refusal
	switch {
	case errors.As(err, &refusal):
		t.metrics.refused.WithLabelValues(refusal.Reason).Inc()
		t.next[url] = time.Now().Add(refusedPause)
		if !t.warned[url] && len(t.warned) < maxWarned {
			t.warned[url] = true
			t.opts.Log.WithError(err).WithField("url", url).Warn("refused an answer of the dashboard and did not store it: Ray does not answer like this, so check which process answers on the head")
		}
	case ctx.Err() == nil:
		t.metrics.errors.Inc()
		if log, ok := t.unstored.Next(time.Now()); ok {
			log.WithError(err).WithField("url", url).Warn("could not save a snapshot; it is tried again")
		}
	}
}
