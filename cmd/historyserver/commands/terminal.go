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

// writeTable writes the lines of a table. On a terminal words for outcomes are coloured. Long lines are left to the
// terminal: their ends are what the table is for, such as what is damaged, or how two runs differ.
func (t terminal) writeTable(w io.Writer, table string) error {
	var b strings.Builder
	for line := range strings.Lines(table) {
		b.WriteString(t.paint(strings.TrimRight(line, " \n")) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shrink makes a column of a table narrower, down to least.
type shrink struct{ column, least int }

// fit takes from columns, in this order, what the rows of a table are wider than the terminal. What is still too wide
// goes on in the terminal's next line.
func (t terminal) fit(rows [][]any, order ...shrink) {
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
			cells[s.column] = human.Cut(fmt.Sprint(cells[s.column]), max(s.least, widths[s.column]-over))
		}
	}
}

// gap is between two columns of a table.
const gap = 2

// colours are the codes (ECMA-48, SGR) of what is coloured: a state or outcome that is a cell of a table, and the
// severity that begins a finding.
var colours = map[string]string{
	catalog.Failed: "31", catalog.Succeeded: "32", catalog.Stopped: "35", catalog.Unfinished: "33",
	catalog.Running: "34", "ERROR": "31", "WARNING": "33",
}

// coloured matches these.
var coloured = lazyregexp.New(`(?m)(?:^|  )(` + strings.Join(slices.Sorted(maps.Keys(colours)), "|") + `)(?:  |$)`)

func (t terminal) paint(text string) string {
	if !t.colour {
		return text
	}
	return coloured().ReplaceAllStringFunc(text, func(found string) string {
		word := strings.TrimSpace(found)
		return strings.Replace(found, word, "\x1b["+colours[word]+"m"+word+"\x1b[0m", 1)
	})
}

// throughPager writes a long text: on a terminal through the user's pager, otherwise at once.
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
	// a short text stays on the screen, colours are shown
	cmd.Env = append(os.Environ(), "LESS="+cmp.Or(os.Getenv("LESS"), "FRX"))
	// Ctrl-C is the pager's, as often as it is pressed: without this process it would leave the terminal as it set it.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	if err := cmd.Start(); err != nil { // there is no such program
		_, err := io.WriteString(o.out, painted)
		return err
	}
	return cmd.Wait()
}
