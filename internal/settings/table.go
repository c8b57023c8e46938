package settings

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// WriteTable writes a Markdown table of all settings of a flag set, by flag name: what docs/ shows is generated.
func WriteTable(w io.Writer, fs *pflag.FlagSet) error {
	var b strings.Builder
	b.WriteString("| flag | environment | in the file | default | what |\n|---|---|---|---|---|\n")
	for _, s := range all(fs) {
		if s.flag.Hidden {
			continue
		}
		var flags []string
		for _, spelling := range s.spellings() {
			flags = append(flags, "--"+spelling)
		}
		value := s.flag.DefValue
		if value != "" {
			value = "`" + value + "`"
		}
		_, usage := pflag.UnquoteUsage(s.flag)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(flags), code(s.env()), code(s.file()), value,
			strings.ReplaceAll(usage, "|", "\\|"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func code(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }
