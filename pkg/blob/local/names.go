package local

import (
	"fmt"
	"strings"
)

// marker starts the file names that a segment of a key (what lies between two slashes) gets where its own spelling cannot be one: an
// empty segment, which base64 job IDs bring ("job_events/////Ag==/…"), is the file or folder ".~"; a segment that itself starts with
// the marker is doubled. Any other name that starts with the marker is no object's.
const marker = ".~"

// fileName maps a key to the path of its file, relative to the store's folder. The segments "." and ".." are refused: object stores
// take them, but no layout has them, and half the tools that copy between the two resolve them.
func fileName(key string) (string, error) {
	if key == "" {
		return "", fmt.Errorf("empty key")
	}
	if strings.IndexByte(key, 0) >= 0 {
		return "", fmt.Errorf("key %.300q: a NUL byte cannot be stored", key)
	}
	segments := strings.Split(key, "/")
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

// keySegment maps a file's or folder's own name back to the segment of the key; ok is false for one that no key maps to.
func keySegment(name string) (segment string, ok bool) {
	segment, marked := strings.CutPrefix(name, marker)
	if !marked {
		return name, true
	}
	return segment, segment == "" || strings.HasPrefix(segment, marker)
}
