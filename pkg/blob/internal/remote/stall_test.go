package remote

import (
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// stallTest runs a test with both ends of a connection, and reads at the near end, as HTTP's transport does all the
// time. read has the bytes, and failed the error that ended reading.
func stallTest(t *testing.T, test func(near, far net.Conn, read <-chan byte, failed <-chan error)) {
	synctest.Test(t, func(t *testing.T) {
		pipe, far := net.Pipe()
		near := &stallConn{Conn: pipe, stall: DefaultStall}
		defer func() { _, _ = near.Close(), far.Close() }()
		read, failed := make(chan byte, 100), make(chan error, 1)
		go func() {
			for buffer := make([]byte, 1); ; {
				if _, err := near.Read(buffer); err != nil {
					failed <- err
					return
				}
				read <- buffer[0]
			}
		}()
		test(near, far, read, failed)
	})
}

// TestSlowUploadIsNoStall: nothing is received while a request is sent, however long that takes.
func TestSlowUploadIsNoStall(t *testing.T) {
	stallTest(t, func(near, far net.Conn, read <-chan byte, failed <-chan error) {
		go func() {
			for buffer := make([]byte, 1); ; {
				time.Sleep(DefaultStall / 2)
				if _, err := far.Read(buffer); err != nil || buffer[0] == 'z' {
					time.Sleep(DefaultStall / 2)
					_, _ = far.Write([]byte("answer"))
					return
				}
			}
		}()
		for _, part := range "abcdefz" {
			must.Get(near.Write([]byte{byte(part)}))(t)
		}
		select {
		case <-read:
		case err := <-failed:
			t.Fatalf("before the answer: %v", err)
		}
		says.ErrorIs(t, <-failed, os.ErrDeadlineExceeded, "after the answer nothing more comes")
	})
}

// TestSendingIsNoProgress: what the other side takes at once may be in a buffer of the kernel.
func TestSendingIsNoProgress(t *testing.T) {
	stallTest(t, func(near, far net.Conn, _ <-chan byte, failed <-chan error) {
		go func() { _, _ = io.Copy(io.Discard, far) }()
		for range 10 {
			must.Get(near.Write([]byte("request")))(t)
			time.Sleep(DefaultStall / 3)
		}
		select {
		case err := <-failed:
			says.ErrorIs(t, err, os.ErrDeadlineExceeded)
		default:
			t.Error("no request is answered, and nobody notices")
		}
	})
}

// TestRequestOnAnIdleConnection: the wait for an answer begins with its request.
func TestRequestOnAnIdleConnection(t *testing.T) {
	stallTest(t, func(near, far net.Conn, read <-chan byte, failed <-chan error) {
		go func() {
			for buffer := make([]byte, 1); ; {
				if _, err := far.Read(buffer); err != nil {
					return
				}
				time.Sleep(DefaultStall / 2)
				_, _ = far.Write([]byte("a"))
			}
		}()
		for range 3 {
			time.Sleep(DefaultStall * 3 / 4)
			must.Get(near.Write([]byte("r")))(t)
			select {
			case <-read:
			case err := <-failed:
				t.Fatalf("before the answer: %v", err)
			}
		}
	})
}
