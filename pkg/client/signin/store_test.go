package signin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestFolderIsLink: it is told why a folder of sign-ins is not taken, and nothing is made in it.
func TestFolderIsLink(t *testing.T) {
	elsewhere, dir := t.TempDir(), filepath.Join(t.TempDir(), "signins")
	must.OK(t, os.Symlink(elsewhere, dir))
	err := Store{dir}.Write(&Credentials{Server: "https://history.example.com"})
	says.True(t, err != nil && strings.Contains(err.Error(), "may be a link"), "%v", err)
	made := must.Get(os.ReadDir(elsewhere))(t)
	says.True(t, len(made) == 0, "%v was made", made)
}
