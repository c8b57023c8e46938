package remote

import "io"

const (
	// leastPart is how many bytes a part of an object has, unless that makes too many parts.
	leastPart = 16 << 20
	// maxCreate is the size in bytes up to which an object is created by one request, which needs the fewest rights.
	maxCreate = 64 << 20
	// maxParts is how many parts S3 and OSS allow; Azure allows more.
	maxParts = 10_000
)

// InParts says whether an object of this size is sent in parts. Large objects are, so that a broken connection costs
// one part, not all. An object that may replace another is whenever it has more than one part: its body may come from
// the object that it replaces, and then cannot be read again after a lost answer.
func InParts(size int64, createOnly bool) bool {
	if createOnly {
		return size > maxCreate
	}
	return size > leastPart
}

// SendParts sends a body of the given size part by part. Each part is held in memory while it is sent: SDKs read a part
// more than once, which a body that is itself a download should not suffer. send must not keep the part.
func SendParts(body io.Reader, size int64, send func(part []byte) error) error {
	buffer := make([]byte, min(size, partSize(size)))
	for left := size; left > 0; {
		part := buffer[:min(left, int64(len(buffer)))]
		if _, err := io.ReadFull(body, part); err != nil {
			return err
		}
		if err := send(part); err != nil {
			return err
		}
		left -= int64(len(part))
	}
	return nil
}

// partSize is large enough for an object of this size to have no more parts than are allowed.
func partSize(size int64) int64 { return max(leastPart, (size+maxParts-1)/maxParts) }
