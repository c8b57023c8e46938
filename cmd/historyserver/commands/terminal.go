package commands

import (
	"cmp"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

// terminal is where a command's output goes, if that is a terminal.
type terminal struct {
	width  int  // in columns; 0: it is none
	colour bool // https://no-color.org
}

func terminalOf(out io.Writer) terminal {
	f, ok := out.(*os.File)
	if !ok {
		return terminal{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return terminal{}
	}
	return terminal{width: width, colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// writeTable writes the lines of a table. On a terminal they are cut to its width, and words for outcomes are coloured.
func (t terminal) writeTable(w io.Writer, table string) error {
	var b strings.Builder
	for line := range strings.Lines(table) {
		line = strings.TrimRight(line, " \n")
		if runes := []rune(line); t.width > 1 && len(runes) > t.width {
			line = string(runes[:t.width-1]) + "…"
		}
		b.WriteString(t.paint(line) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// outcomeWord matches what is coloured: a state or outcome that is a cell of a table, and the severity that begins a
// finding.
var outcomeWord = lazyregexp.New(`(?m)(?:^|  )(failed|succeeded|running|stopped|unfinished|ERROR|WARNING)(?:  |$)`)

// colours are the codes of words (ECMA-48, SGR).
var colours = map[string]string{
	"failed": "31", "ERROR": "31", "WARNING": "33", "unfinished": "33", "succeeded": "32", "running": "34",
	"stopped": "35",
}

func (t terminal) paint(text string) string {
	if !t.colour {
		return text
	}
	return outcomeWord().ReplaceAllStringFunc(text, func(found string) string {
		word := strings.TrimSpace(found)
		return strings.Replace(found, word, "\x1b["+colours[word]+"m"+word+"\x1b[0m", 1)
	})
}

// page writes a long text: on a terminal through the user's pager.
func (o *operator) page(write func(io.Writer) error) error {
	pager := strings.Fields(cmp.Or(os.Getenv("PAGER"), "less"))
	if o.terminal.width == 0 || slices.Equal(pager, []string{"cat"}) {
		return write(o.out)
	}
	var text strings.Builder
	if err := write(&text); err != nil {
		return err
	}
	painted := o.terminal.paint(text.String())
	cmd := exec.Command(pager[0], pager[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(painted), o.out, o.errOut
	// a short text stays on the screen, colours are shown
	cmd.Env = append(os.Environ(), "LESS="+cmp.Or(os.Getenv("LESS"), "FRX"))
	if err := cmd.Start(); err != nil { // there is no such program
		_, err := io.WriteString(o.out, painted)
		return err
	}
	return cmd.Wait()
}
