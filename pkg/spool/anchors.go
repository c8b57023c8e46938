package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// anchor says where a stream lies in its whole: the stream's byte `from` is the whole's byte `at`, and what follows follows. Everything
// of the stream before `from` is stored, or lost.
type anchor struct {
	from, at int64
}

// anchors keeps the streams' anchors on disk: a file of fixed slots, added to and now and then rewritten. An anchor is on disk before the
// first byte that is shipped by it, so that after a crash the end of what is stored tells what of a stream that is. A slot that is
// lost costs shipping a stream's pieces a second time.
type anchors struct {
	disk disk
	path string

	mu     sync.Mutex
	live   map[uint64]anchor // by the streams' generations
	file   file
	slots  int64
	broken bool // the file may end with half a slot
}

// A slot is generation uint64, from int64, at int64, checksum uint32, 4 bytes of zero.
const slotBytes = 32

func encodeSlot(b []byte, generation uint64, a anchor) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(b, generation)
	b = binary.LittleEndian.AppendUint64(b, uint64(a.from))
	b = binary.LittleEndian.AppendUint64(b, uint64(a.at))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	return append(b, 0, 0, 0, 0)
}

func decodeSlot(b []byte) (generation uint64, a anchor, ok bool) {
	if crc32.Checksum(b[:24], castagnoli) != binary.LittleEndian.Uint32(b[24:]) {
		return 0, anchor{}, false
	}
	a = anchor{from: int64(binary.LittleEndian.Uint64(b[8:])), at: int64(binary.LittleEndian.Uint64(b[16:]))}
	return binary.LittleEndian.Uint64(b), a, a.from >= 0 && a.from <= maxOffset && a.at >= -maxOffset && a.at <= maxOffset
}

// readAnchors reads the file that an earlier process left. Slots that can't be read are skipped.
func readAnchors(path string) (map[uint64]anchor, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read anchors: %w", err)
	}
	all := make(map[uint64]anchor)
	for ; len(b) >= slotBytes; b = b[slotBytes:] {
		if generation, a, ok := decodeSlot(b); ok {
			all[generation] = a
		}
	}
	return all, nil
}

// save puts a stream's anchor on disk. A stream's first anchor may also stay in memory, if the disk has no room for it: what fills the
// disk can only go by being shipped.
func (k *anchors) save(generation uint64, a anchor) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, had := k.live[generation]
	if had && before == a {
		return nil
	}
	k.live[generation] = a
	err := k.add(generation, a)
	if err == nil {
		return nil
	}
	k.broken = true // the next save writes all of them
	if !had && diskFull(err) {
		return nil
	}
	if delete(k.live, generation); had {
		k.live[generation] = before
	}
	return fmt.Errorf("save anchor: %w", err)
}

func (k *anchors) add(generation uint64, a anchor) error {
	if k.file == nil || k.broken || k.slots > 4*int64(len(k.live))+1024 {
		return k.rewrite()
	}
	if _, err := k.file.WriteAt(encodeSlot(nil, generation, a), k.slots*slotBytes); err != nil {
		return err
	}
	if err := k.file.Sync(); err != nil {
		return err
	}
	k.slots++
	return nil
}

// rewrite replaces the file by one of the live anchors only.
func (k *anchors) rewrite() error {
	if k.file != nil {
		_ = k.file.Close() // what it holds is written anew
		k.file = nil
	}
	var b []byte
	for generation, a := range k.live {
		b = encodeSlot(b, generation, a)
	}
	temp := k.path + ".tmp"
	if err := k.disk.remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := k.disk.create(temp)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = k.disk.rename(temp, k.path)
	}
	if err == nil {
		err = k.disk.syncDir(filepath.Dir(k.path))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	k.file, k.slots, k.broken = f, int64(len(k.live)), false
	return nil
}

// forget drops the anchor of a stream that is no more; its slot goes with the next rewrite.
func (k *anchors) forget(generation uint64) {
	k.mu.Lock()
	delete(k.live, generation)
	k.mu.Unlock()
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
