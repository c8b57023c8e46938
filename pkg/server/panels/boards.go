package panels

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/server/frontend"
)

// boardFiles are the dashboards that Ray generates, a file for each with those of several Ray versions;
// scripts/grafana-boards.sh makes them.
//
//go:embed boards
var boardFiles embed.FS

// maxBoards is what the versions of one dashboard take together at most, in bytes.
const maxBoards = 8 << 20

// board returns the dashboard that Ray makes in the version that is nearest to the session's, "" for the newest, and
// that version. It is errNone if Ray makes no such dashboard.
func board(name, rayVersion string) (text []byte, version string, err error) {
	compressed, err := boardFiles.ReadFile("boards/" + name + ".json.zst")
	if err != nil {
		return nil, "", errNone
	}
	in, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBoards))
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	data, err := in.DecodeAll(compressed, nil)
	if err != nil {
		return nil, "", fmt.Errorf("read the dashboards of Ray: %w", err)
	}
	var versions map[string]json.RawMessage
	if err := json.Unmarshal(data, &versions); err != nil {
		return nil, "", fmt.Errorf("read the dashboards of Ray: %w", err)
	}
	version = frontend.Nearest(slices.Collect(maps.Keys(versions)), rayVersion)
	return versions[version], version, nil
}
