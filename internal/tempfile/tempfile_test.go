package tempfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestCreate: a file leaves nothing in its folder, and where it cannot be made the error says what to set.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	file := must.Get(Create())(t)
	if left := must.Get(os.ReadDir(dir))(t); len(left) > 0 {
		t.Errorf("it is there as %s", left[0].Name())
	}
	must.Get(file.WriteString("text"))(t)
	must.OK(t, file.Close())
	t.Setenv("TMPDIR", filepath.Join(dir, "missing"))
	if _, err := Create(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "set TMPDIR") {
		t.Errorf("without the folder: %v", err)
	}
}
