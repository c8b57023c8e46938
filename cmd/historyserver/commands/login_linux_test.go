package commands

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestTokenInterrupted: whoever presses Ctrl-C where a token is asked for gets a terminal that shows what is typed.
func TestTokenInterrupted(t *testing.T) {
	screen := must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	must.OK(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	number := must.Get(unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN))(t)
	keyboard := must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	defer func() { _, _ = screen.Close(), keyboard.Close() }()
	shows := func() bool {
		return must.Get(unix.IoctlGetTermios(int(keyboard.Fd()), unix.TCGETS))(t).Lflag&unix.ECHO != 0
	}
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := (&login{in: keyboard, errOut: io.Discard}).readToken(ctx)
		ended <- err
	}()
	must.Happen(t, "the terminal shows nothing", func() bool { return !shows() })
	interrupt()
	if err := <-ended; err == nil || !shows() {
		t.Errorf("%v; the terminal shows what is typed: %v", err, shows())
	}
}
