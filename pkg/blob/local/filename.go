package local

import (
	"fmt"
	"strings"
)

// FileName is the path of the file, below the store's folder, that holds the object with a key; in it "/" is between folders. A
// key that cannot be stored is an error.
func FileName(key string) (string, error) { return fileName(key) }

// Key is the key of the object that a file holds: what FileName makes a name of. Any other name is an error.
func Key(name string) (string, error) {
	segments := strings.Split(name, "/")
	for i, segment := range segments {
		var ok bool
		if segments[i], ok = keySegment(segment); !ok {
			return "", fmt.Errorf("file name %.300q: it is not the name of an object", name)
		}
	}
	key := strings.Join(segments, "/")
	if again, err := fileName(key); err != nil || again != name {
		return "", fmt.Errorf("file name %.300q: it is not the name of an object", name)
	}
	return key, nil
}
