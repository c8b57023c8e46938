package logs

import (
	"cmp"
	"os"
	"path"
)

// devices says which device number those of the state file are now. A volume that is mounted again may have another
// one, as a network share does on each machine, and some disks after each start. Inodes stay.
type devices map[uint64]uint64

// lookUpNumbers finds out the present number of each device in the state file: it looks at the paths of the device's
// files until one of them still has its inode. root is Ray's temporary folder.
func (d devices) lookUpNumbers(root *os.Root, streams []streamEntry) {
	for _, s := range streams {
		for _, e := range s.Files {
			if _, known := d[e.Dev]; known {
				continue
			}
			name := cmp.Or(e.Name, string(e.Raw)) // Raw is for names that are not UTF-8
			info, err := root.Lstat(path.Join(e.Dir, name))
			if err != nil || idOf(info).ino != e.Ino {
				continue // this file was moved, removed or replaced: the device's next file may tell
			}
			d[e.Dev] = idOf(info).dev
		}
	}
}

// presentNumber is the present number of a device that had the number dev in the state file; dev if that is not known.
func (d devices) presentNumber(dev uint64) uint64 {
	if present, known := d[dev]; known {
		return present
	}
	return dev
}
