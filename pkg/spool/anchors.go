package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"sync"
)

// anchor says where a stream lies in its whole: the stream's byte `from` is the whole's byte `at`, and what follows follows. Everything
// of the stream before `from` is stored, or lost.
type anchor struct {
	from, at int64
}

// saved is a generation's anchor, and the end of the chunk from there that was tried last: the chunk [from, until) may be stored or not.
// until is not above from if none was tried.
type saved struct {
	generation uint64
	anchor     anchor
	until      int64
}

// anchors keeps the streams' anchors on disk, so that after a crash the end of what is stored tells what of a stream that is. They are
// there before a byte is shipped by them, and moved behind pieces before these are deleted.
//
// The file is slots, of which the newest of each generation counts. A new anchor takes a free slot, and then the one before is free: a
// slot is never overwritten while it counts, and where many streams come and go the file does not grow. A slot that is lost costs
// shipping a stream's pieces a second time.
type anchors struct {
	disk disk
	path string

	mu       sync.Mutex
	file     file
	live     map[uint64]slot // by generation
	free     []int64
	slots    int64
	sequence uint32
}

type slot struct {
	saved saved
	index int64
}

const (
	// A slot is generation uint64, from int64, at int64, until int64, sequence uint32, checksum uint32.
	slotBytes = 40
	// reservedSlots are written when the file is made, so that a disk which fills up later has room for them.
	reservedSlots = 128
)

func encodeSlot(b []byte, s saved, sequence uint32) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(b, s.generation)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.anchor.from))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.anchor.at))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.until))
	b = binary.LittleEndian.AppendUint32(b, sequence)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

func decodeSlot(b []byte) (s saved, sequence uint32, ok bool) {
	s = saved{
		generation: binary.LittleEndian.Uint64(b),
		anchor:     anchor{from: int64(binary.LittleEndian.Uint64(b[8:])), at: int64(binary.LittleEndian.Uint64(b[16:]))},
		until:      int64(binary.LittleEndian.Uint64(b[24:])),
	}
	ok = crc32.Checksum(b[:36], castagnoli) == binary.LittleEndian.Uint32(b[36:]) &&
		s.anchor.from >= 0 && s.anchor.from <= maxOffset && s.anchor.at >= -maxOffset && s.anchor.at <= maxOffset
	return s, binary.LittleEndian.Uint32(b[32:]), ok
}

// load reads the file that an earlier process left. Slots that can't be read are free.
func (k *anchors) load() error {
	b, err := os.ReadFile(k.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read anchors: %w", err)
	}
	newest := make(map[uint64]uint32)
	for ; len(b) >= slotBytes; b = b[slotBytes:] {
		index := k.slots
		k.slots++
		s, sequence, ok := decodeSlot(b)
		if before, known := k.live[s.generation]; ok && known {
			if sequence < newest[s.generation] {
				ok = false
			} else {
				k.free = append(k.free, before.index)
			}
		}
		if !ok {
			k.free = append(k.free, index)
			continue
		}
		k.live[s.generation], newest[s.generation] = slot{s, index}, sequence
		k.sequence = max(k.sequence, sequence+1)
	}
	return nil
}

// save puts anchors on disk.
func (k *anchors) save(list []saved) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var taken []slot
	var fresh []saved
	var err error
	for _, s := range list {
		if before, ok := k.live[s.generation]; ok && before.saved == s {
			continue
		}
		var index int64
		if index, err = k.write(s); err != nil {
			break
		}
		taken, fresh = append(taken, slot{s, index}), append(fresh, s)
	}
	if err == nil && len(taken) > 0 {
		err = k.file.Sync()
	}
	if err != nil {
		// What was written may be read back after a crash. It is what was to be, so that does no harm.
		for _, s := range taken {
			k.free = append(k.free, s.index)
		}
		return fmt.Errorf("save anchors: %w", err)
	}
	for i, s := range fresh {
		if before, ok := k.live[s.generation]; ok {
			k.free = append(k.free, before.index)
		}
		k.live[s.generation] = taken[i]
	}
	return nil
}

// write puts an anchor into a free slot.
func (k *anchors) write(s saved) (index int64, err error) {
	if err := k.open(); err != nil {
		return 0, err
	}
	index = k.slots
	if n := len(k.free); n > 0 {
		index = k.free[n-1]
	}
	if _, err := k.file.WriteAt(encodeSlot(nil, s, k.sequence), index*slotBytes); err != nil {
		return 0, err
	}
	if n := len(k.free); n > 0 {
		k.free = k.free[:n-1]
	} else {
		k.slots++
	}
	k.sequence++
	return index, nil
}

// open opens the file, and makes it if there is none.
func (k *anchors) open() error {
	if k.file != nil {
		return nil
	}
	f, err := k.disk.update(k.path)
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

// forget frees the slots of generations that are no more.
func (k *anchors) forget(generations []uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, generation := range generations {
		if s, ok := k.live[generation]; ok {
			k.free = append(k.free, s.index)
			delete(k.live, generation)
		}
	}
}

func (k *anchors) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return nil
	}
	err := k.file.Close()
	k.file = nil
	return err
}
