package commands

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/catalog"
)

// terminal is where a command's output goes, if that is a terminal.
type terminal struct {
	width  int  // in columns; 0: it is none
	colour bool // https://no-color.org
}

// terminalOf is the terminal that a command writes to; zero if out is none.
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

// writeTable writes the lines of a table, with colours on a terminal. It does not cut long lines: their ends are what
// people look for, such as what is damaged, or how two runs differ.
func (t terminal) writeTable(w io.Writer, table string) error {
	var b strings.Builder
	for line := range strings.Lines(table) {
		b.WriteString(t.paint(strings.TrimRight(line, " \n")) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shrink says that a column of a table, by its index, may be made narrower, down to a number of characters.
type shrink struct{ column, minWidth int }

// fitColumns shortens cells of a table's rows, in place, until the rows are not wider than the terminal: first those of
// the first column of order, as far as it may shrink, then of the next. If that is not enough, the terminal wraps the
// lines.
func (t terminal) fitColumns(rows [][]any, order ...shrink) {
	if t.width == 0 {
		return
	}
	for _, s := range order {
		widths := make([]int, len(rows[0]))
		for _, cells := range rows {
			for i, cell := range cells {
				widths[i] = max(widths[i], utf8.RuneCountInString(fmt.Sprint(cell)))
			}
		}
		over := gap*(len(widths)-1) - t.width
		for _, width := range widths {
			over += width
		}
		if over <= 0 {
			return
		}
		for _, cells := range rows {
			cells[s.column] = human.Cut(fmt.Sprint(cells[s.column]), max(s.minWidth, widths[s.column]-over))
		}
	}
}

// gap is the number of spaces between two columns of a table.
const gap = 2

// colours are the codes (ECMA-48, SGR) of the words that are coloured: states and outcomes in cells of tables, and the
// severity at the beginning of a finding.
var colours = map[string]string{
	catalog.Failed: "31", catalog.Succeeded: "32", catalog.Stopped: "35", catalog.Unfinished: "33",
	catalog.Running: "34", "ERROR": "31", "WARNING": "33",
}

// coloured matches such a word with its surroundings: the beginning or end of a line, or two spaces.
var coloured = lazyregexp.New(`(?m)(?:^|  )(` + strings.Join(slices.Sorted(maps.Keys(colours)), "|") + `)(?:  |$)`)

// paint colours the words of colours in a text, if the terminal shows colours.
func (t terminal) paint(text string) string {
	if !t.colour {
		return text
	}
	return coloured().ReplaceAllStringFunc(text, func(found string) string {
		word := strings.TrimSpace(found)
		return strings.Replace(found, word, "\x1b["+colours[word]+"m"+word+"\x1b[0m", 1)
	})
}

// throughPager writes the text that write produces: on a terminal with the user's pager, otherwise directly.
func (o *operator) throughPager(write func(io.Writer) error) error {
	pager := strings.Fields(cmp.Or(strings.TrimSpace(os.Getenv("PAGER")), "less"))
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
	// FRX has less leave a short text on the screen, and show colours.
	cmd.Env = append(os.Environ(), "LESS="+cmp.Or(os.Getenv("LESS"), "FRX"))
	// Ctrl-C is for the pager, and must not end this process: it would end the pager, which would not restore the
	// terminal.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	if err := cmd.Start(); err != nil { // there is no such program: the text is written without a pager
		_, err := io.WriteString(o.out, painted)
		return err
	}
	return cmd.Wait()
}
