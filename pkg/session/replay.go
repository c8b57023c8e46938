package session

import (
	"context"
	"errors"
	"io"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

const (
	blockBytes = 512 << 10 // read at a time
	// readerBytes is about what one replaying goroutine holds: a block, prefetched bytes and cached strings.
	readerBytes = blockBytes + chunks.PrefetchBytes/2 + 512<<10
	// maxEventBytes bounds one event. Longer events are skipped.
	maxEventBytes = 16 << 20
)

// replayer replays one work item after the other. Each goroutine that replays has its own.
type replayer struct {
	d   *eventjson.Decoder
	buf []byte // kept from item to item
	// afterBlock is called between blocks.
	afterBlock func() error
}

// tablesSink merges decoded events into the tables.
type tablesSink struct {
	tasks    *tasktable.Builder
	entities *entities.Builder
}

func (s tablesSink) MergeTask(u *eventjson.TaskUpdate) { s.tasks.MergeTask(u) }

func (s tablesSink) MergeEntity(u *entities.Update) { s.entities.MergeEntity(u) }

// replayed is the result of replaying a work item.
type replayed struct {
	consumed int64 // bytes of the stream up to the end of its last event
	damaged  int   // parts that were skipped
	cut      bool  // the last event is not complete
	archived bool  // the store has archived a part, which is left out
}

// replay reads the events of a work item, block by block, and passes them on. It closes the reader. Bytes that are not
// stored, and events that are damaged, are skipped; warn is called for the former.
func (r *replayer) replay(ctx context.Context, in *chunks.Reader, item workItem,
	warn func(format string, args ...any)) (out replayed, err error) {
	defer in.Close()
	if r.buf == nil {
		r.buf = make([]byte, blockBytes)
	}
	// A part of a stream may begin within an event, and its first whole event must be found with certainty.
	b := block{data: r.buf[:0], lines: item.lines, formKnown: item.split, lost: item.split && item.from > 0,
		strict: true}
	for !b.last && !b.itemEnd {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		b.data = r.makeSpace(b.data)
		n, err := in.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		gap, isGap := errors.AsType[*chunks.Gap](err)
		if isGap {
			warn("%v", gap)
			out.archived = out.archived || errors.Is(gap, blob.ErrArchived)
		}
		b.last = isGap || err == io.EOF
		if err != nil && !b.last {
			return out, err
		}
		b.left = item.to - (in.Offset() - int64(len(b.data)))
		r.replayBlock(&b, &out)
		if err := r.afterBlock(); err != nil {
			return out, err
		}
		out.consumed = in.Offset() - int64(len(b.data))
		if isGap {
			// The bytes after a gap do not continue the event before it. Chunks of a stream of lines begin with a line.
			b = block{data: r.buf[:0], lines: b.lines, formKnown: b.formKnown, lost: !b.lines}
		}
	}
	return out, nil
}

// makeSpace returns data with free capacity behind it, for more to be read. The buffer doubles when one event fills
// half of it, and is small again afterwards if it was much larger.
func (r *replayer) makeSpace(data []byte) []byte {
	switch {
	case len(data) > len(r.buf)/2:
		grown := make([]byte, 2*len(r.buf))
		r.buf, data = grown, grown[:copy(grown, data)]
		return data
	case len(data) == 0 && len(r.buf) > 16*blockBytes:
		r.buf = make([]byte, blockBytes)
	}
	return r.buf[:copy(r.buf, data)]
}

// replayBlock replays the complete events in b, and counts in out what is damaged or cut. It leaves in b the beginning
// of an event whose end is still to be read, and sets b.itemEnd when an event belongs to the next work item.
func (r *replayer) replayBlock(b *block, out *replayed) {
	if len(b.data) < b.enough && !b.last {
		return
	}
	b.enough = 0
	for {
		if b.lost && !b.skipToEvent() {
			return
		}
		b.drop(b.countSeparators())
		if len(b.data) == 0 {
			return
		}
		if b.left <= 0 { // the end of the work item: only the rest of an event that began in it still belongs to it
			switch starts, enough := startsEvent(b.data); {
			case starts:
				b.itemEnd = true
				return
			case !enough && !b.last:
				return
			}
		}
		text, complete := b.nextText()
		n, err := r.d.Decode(text)
		cut := errors.Is(err, eventjson.ErrCut) && !complete
		switch { // the event is read; cut, and its rest is still to come; cut at the stream's end; damaged
		case err == nil:
			b.drop(n)
		case cut && !b.last && len(b.data) < maxEventBytes:
			b.enough = min(2*len(b.data), maxEventBytes)
			return
		case cut && b.last:
			out.cut = true
			return
		default:
			out.damaged++
			b.lost, b.strict = true, false
			b.drop(1)
		}
	}
}
