package local

import (
	"fmt"
	"strings"
)

// marker starts the file names that a segment of a key (what lies between two slashes) gets where its own spelling
// cannot be one: an empty segment, which base64 job IDs bring ("job_events/////Ag==/…"), is the file or folder ".~"; a
// segment that itself starts with the marker is doubled. Any other name that starts with the marker is no object's.
const marker = ".~"

// maxFolders is how many folders deep objects are: reaching a file takes a time that grows with the cube of its depth,
// and no layout has more than some forty.
const maxFolders = 128

// FileName returns the path of the file, below the store's folder, that holds the object with this key. Slashes in a
// key become folders. A segment that is empty, or begins with the marker, gets the marker in front: so it can be a
// file's name, and Key can tell what it was. The error says that the key cannot be stored. The segments "." and ".."
// are refused: object stores take them, but no layout has them, and half the tools that copy between the two resolve
// them.
func FileName(key string) (string, error) {
	if key == "" {
		return "", fmt.Errorf("empty key")
	}
	if strings.IndexByte(key, 0) >= 0 {
		return "", fmt.Errorf("key %.300q: a NUL byte cannot be stored", key)
	}
	segments := strings.Split(key, "/")
	if len(segments) > maxFolders+1 {
		return "", fmt.Errorf("key %.300q: more than %d folders deep", key, maxFolders)
	}
	for i, segment := range segments {
		switch {
		case segment == "." || segment == "..":
			return "", fmt.Errorf("key %.300q: the segment %q cannot be stored", key, segment)
		case segment == "" || strings.HasPrefix(segment, marker):
			segments[i] = marker + segment
		}
	}
	return strings.Join(segments, "/"), nil
}

// Key returns the key of the object that the file at the path name holds: it is the inverse of FileName. The error says
// that FileName makes no such path.
func Key(name string) (string, error) {
	segments := strings.Split(name, "/")
	for i, segment := range segments {
		segments[i], _ = keySegment(segment) // if it is no key's, the key has another file, see below
	}
	key := strings.Join(segments, "/")
	if again, err := FileName(key); err != nil || again != name {
		return "", fmt.Errorf("file name %.300q: it is not the name of an object", name)
	}
	return key, nil
}

// keySegment is the key's segment for a file's or folder's own name; ok is false if no key maps to it.
func keySegment(name string) (segment string, ok bool) {
	segment, marked := strings.CutPrefix(name, marker)
	if !marked {
		return name, true
	}
	return segment, segment == "" || strings.HasPrefix(segment, marker)
}
