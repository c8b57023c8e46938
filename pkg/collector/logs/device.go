package logs

import (
	"cmp"
	"os"
	"path"
)

// devices says which device number those of the state file are now. A volume that is mounted again may have another
// one, as a network share does on each machine, and some disks after each start. Inodes stay.
type devices map[uint64]uint64

// learn looks for a file of each device where the state file has it.
func (d devices) learn(root *os.Root, streams []streamEntry) {
	for _, s := range streams {
		for _, e := range s.Files {
			if _, known := d[e.Dev]; known {
				continue
			}
			info, err := root.Lstat(path.Join(e.Dir, cmp.Or(e.Name, string(e.Raw))))
			if err != nil || idOf(info).ino != e.Ino {
				continue
			}
			d[e.Dev] = idOf(info).dev
		}
	}
}

// now is the present number of a device; the same one if that is not known.
func (d devices) now(dev uint64) uint64 {
	if now, known := d[dev]; known {
		return now
	}
	return dev
}
