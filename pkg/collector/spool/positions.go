package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"sync"

	"github.com/rayhistory/historyserver/internal/atomicfile"
)

// position is the progress of a stream as saved on disk. Everything before mapping.local is stored or lost. The chunk
// up to the local offset tried was handed out, and may or may not be stored; tried is at most mapping.local if there
// was no such chunk.
type position struct {
	streamID uint64
	mapping  mapping
	tried    int64
	taken    uint64 // counts positions, so that a newer one is not replaced by one that was taken before; not saved
}

// positions keeps the streams' positions on disk. A position is saved before a chunk is sent, and before a segment is
// deleted whose streams continue in other segments.
//
// The file consists of slots of equal size. A new position takes a free slot. Only after it is synced does the slot of
// the previous position become free, so a power loss during a write leaves the previous one. The newest slot of a
// stream counts. Slots are reused, so the file does not grow with the number of chunks. If a slot is lost, lines of the
// stream may be stored a second time.
type positions struct {
	disk disk
	path string

	mu       sync.Mutex
	file     file
	live     map[uint64]slot // by stream ID
	free     []int64
	slots    int64
	sequence uint32 // of the next write: shows which of two slots is newer
}

type slot struct {
	position position
	index    int64
}

const (
	positionsFile = "anchors" // the name that earlier versions gave it
	// A slot is stream ID uint64, local int64, stored int64, tried int64, sequence uint32, checksum uint32.
	slotBytes = 40
	// reservedSlots are written when the file is created: positions must still be saved on a full disk, or no segment
	// could be deleted.
	reservedSlots = 128
)

// encodeSlot appends a position as a slot of the file. sequence says which of two slots is newer.
func encodeSlot(b []byte, p position, sequence uint32) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(b, p.streamID)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.mapping.local))
	b = binary.LittleEndian.AppendUint64(b, uint64(p.mapping.stored))
	b = binary.LittleEndian.AppendUint64(b, uint64(p.tried))
	b = binary.LittleEndian.AppendUint32(b, sequence)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// decodeSlot decodes slotBytes bytes that encodeSlot wrote; ok is false if they are damaged or incomplete.
func decodeSlot(b []byte) (p position, sequence uint32, ok bool) {
	p = position{
		streamID: binary.LittleEndian.Uint64(b),
		mapping: mapping{local: int64(binary.LittleEndian.Uint64(b[8:])),
			stored: int64(binary.LittleEndian.Uint64(b[16:]))},
		tried: int64(binary.LittleEndian.Uint64(b[24:])),
	}
	ok = crc32.Checksum(b[:36], castagnoli) == binary.LittleEndian.Uint32(b[36:]) &&
		p.mapping.local >= 0 && p.mapping.local <= maxOffset && p.mapping.stored >= -maxOffset &&
		p.mapping.stored <= maxOffset
	return p, binary.LittleEndian.Uint32(b[32:]), ok
}

// load reads the file that an earlier process left. Of two slots of a stream the newer one counts; the other, and
// unreadable slots, are free.
func (k *positions) load() error {
	b, err := os.ReadFile(k.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read positions: %w", err)
	}
	newest := make(map[uint64]uint32)
	for ; len(b) >= slotBytes; b = b[slotBytes:] {
		index := k.slots
		k.slots++
		p, sequence, ok := decodeSlot(b)
		before, known := k.live[p.streamID]
		if !ok || known && sequence < newest[p.streamID] {
			k.free = append(k.free, index)
			continue
		}
		if known {
			k.free = append(k.free, before.index)
		}
		k.live[p.streamID], newest[p.streamID] = slot{p, index}, sequence
		k.sequence = max(k.sequence, sequence+1)
	}
	return nil
}

// save writes positions to disk, with one sync for all. Positions that are already saved, or older than the saved one
// of their stream, are left out.
func (k *positions) save(list []position) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var written []slot
	var err error
	for _, p := range list {
		if before, ok := k.live[p.streamID]; ok {
			if before.position.taken > p.taken {
				continue // another goroutine saved a newer one meanwhile
			}
			before.position.taken = p.taken // compare all but taken, which is not saved
			if before.position == p {
				continue
			}
		}
		var index int64
		if index, err = k.writeSlot(p); err != nil {
			break
		}
		written = append(written, slot{p, index})
	}
	if err == nil && len(written) > 0 {
		err = k.file.Sync()
	}
	if err != nil {
		// The written slots may still be read after a crash. They are correct, so this does no harm.
		for _, s := range written {
			k.free = append(k.free, s.index)
		}
		return fmt.Errorf("save positions: %w", err)
	}
	for _, s := range written {
		if before, ok := k.live[s.position.streamID]; ok {
			k.free = append(k.free, before.index)
		}
		k.live[s.position.streamID] = s
	}
	return nil
}

// writeSlot writes a position into a free slot, or a new one behind all others, and returns its index.
func (k *positions) writeSlot(p position) (index int64, err error) {
	if err := k.openFile(); err != nil {
		return 0, err
	}
	index = k.slots
	n := len(k.free)
	if n > 0 {
		index = k.free[n-1]
	}
	if _, err := k.file.WriteAt(encodeSlot(nil, p, k.sequence), index*slotBytes); err != nil {
		return 0, err
	}
	if n > 0 {
		k.free = k.free[:n-1]
	} else {
		k.slots++
	}
	k.sequence++
	return index, nil
}

// openFile opens the file of positions unless it is open, and creates it if it does not exist. If it was deleted while
// it was open, all saved positions are gone, and a new file begins. The file has reservedSlots free slots from the
// beginning, so that positions can be saved on a full disk.
func (k *positions) openFile() error {
	if k.file != nil {
		if atomicfile.Names(k.path, k.file) {
			return nil
		}
		_ = k.file.Close() // it was deleted
		k.file, k.slots, k.free = nil, 0, nil
		clear(k.live)
	}
	f, err := k.disk.open(k.path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	if k.slots < reservedSlots {
		if _, err := f.WriteAt(make([]byte, (reservedSlots-k.slots)*slotBytes), k.slots*slotBytes); err != nil {
			return errors.Join(err, f.Close())
		}
		for ; k.slots < reservedSlots; k.slots++ {
			k.free = append(k.free, k.slots)
		}
	}
	k.file = f
	return nil
}

// freeSlot frees the slot of a stream that has nothing left to ship.
func (k *positions) freeSlot(streamID uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s, ok := k.live[streamID]; ok {
		k.free = append(k.free, s.index)
		delete(k.live, streamID)
	}
}

func (k *positions) closeFile() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return nil
	}
	err := k.file.Close()
	k.file = nil
	return err
}
