package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// workItem is what one goroutine replays at a time: the events that begin in bytes [from, to) of a stream.
type workItem struct {
	stream   *chunks.Stream
	from, to int64
	// split: the item is one of several of a large stream, so from and to may lie within an event. lines: the stream is
	// JSON Lines; only set if split.
	split, lines bool
}

const (
	toEnd = math.MaxInt64
	// itemBytes is about the size of the items that large streams are replayed in.
	itemBytes = 8 << 20
)

// workItems divides what was not read yet of some streams into work items, the largest first. A large stream of which
// nothing was read is divided into items of itemBytes, so that several readers share it; any other is one item.
func (s *source) workItems(ctx context.Context, streams []*chunks.Stream) ([]workItem, error) {
	var items []workItem
	for _, stream := range streams {
		from := s.done[stream.Key].consumed
		if from > 0 || !isDivisible(stream) {
			items = append(items, workItem{stream: stream, from: from, to: toEnd})
			continue
		}
		lines, err := s.hasLines(ctx, stream)
		if err != nil {
			return nil, err
		}
		for i := range plainEnd(stream) / itemBytes {
			items = append(items, workItem{stream: stream, from: i * itemBytes, to: (i + 1) * itemBytes, split: true,
				lines: lines})
		}
		items[len(items)-1].to = toEnd // a divisible stream has two at least
	}
	// The largest first: a large item begun last would keep one reader busy after all others are done.
	slices.SortStableFunc(items, func(a, b workItem) int { return cmp.Compare(b.size(), a.size()) })
	return items, nil
}

func (i workItem) size() int64 { return min(i.to, plainEnd(i.stream)) - i.from }

// plainEnd is where the last chunk of a stream ends if none is compressed.
func plainEnd(stream *chunks.Stream) int64 {
	last := stream.Chunks[len(stream.Chunks)-1]
	return last.Offset + last.Object.Size
}

// isDivisible reports whether a stream is large enough for several items and can be read from any offset. Offsets come
// from keys, so a stream with large gaps is not divided.
func isDivisible(stream *chunks.Stream) bool {
	end := plainEnd(stream)
	return end >= 2*itemBytes && end <= 2*stream.Bytes() &&
		!slices.ContainsFunc(stream.Chunks, func(c chunks.Chunk) bool { return c.Compression != layout.Plain })
}

// hasLines reports whether a stream with bytes is JSON Lines, by the first of them: a "{" begins an event, anything
// else an array. If there is no such byte any more, or the store has archived it, the result is true, and replay will
// warn.
func (s *source) hasLines(ctx context.Context, stream *chunks.Stream) (bool, error) {
	i := slices.IndexFunc(stream.Chunks, func(c chunks.Chunk) bool { return c.Object.Size > 0 })
	key := stream.Chunks[i].Object.Key // a divisible stream is not empty
	r, err := s.store.Get(ctx, key, 0, 1)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, blob.ErrArchived) {
			return true, nil
		}
		return false, fmt.Errorf("read %s: %w", key, err)
	}
	defer r.Close()
	var first [1]byte
	switch _, err := io.ReadFull(r, first[:]); {
	case errors.Is(err, io.EOF), errors.Is(err, blob.ErrArchived):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read %s: %w", key, err)
	}
	return first[0] == '{', nil
}

// itemOverlap is how many bytes after an item's end the first request includes, because the item's last event ends
// there.
const itemOverlap = 64 << 10

func (s *source) newReader(ctx context.Context, prefetcher *chunks.Prefetcher, item workItem) *chunks.Reader {
	opts := chunks.Options{
		From: item.from, Prefetcher: prefetcher,
		OnRead:  func(bytes int) { s.opts.Progress.BytesDone.Add(int64(bytes)) },
		OnChunk: func(chunks.Chunk) { s.opts.Progress.ObjectsDone.Add(1) },
	}
	if item.to != toEnd {
		opts.Expect = item.to + itemOverlap
	}
	return chunks.NewReader(ctx, s.store, item.stream, opts)
}
