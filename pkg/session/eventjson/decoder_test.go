package eventjson

import (
	"fmt"
	"testing"
)

// TestTextCacheIsBounded: long strings do not make a cache large, and the last one is in it.
func TestTextCacheIsBounded(t *testing.T) {
	var c textCache
	for i := range 4 * maxTextCache {
		raw := fmt.Appendf(nil, "%04000d", i)
		c.put(raw, 1)
		if _, ok := c.get(raw); !ok {
			t.Fatalf("string %d is not found", i)
		}
	}
	bytes := 0
	for s := range c.ids {
		bytes += len(s)
	}
	if bytes > maxTextCacheBytes || bytes != c.bytes {
		t.Errorf("%d bytes are cached, and counted as %d", bytes, c.bytes)
	}
}
