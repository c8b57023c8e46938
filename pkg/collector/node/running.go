package node

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Running says whether the raylet of a session runs on this node.
//
// A raylet listens on {session}/sockets/raylet (ray/_private/node.py) until it ends, even if it is killed. The kernel's list of such sockets
// is read instead of connecting to the socket: the containers of a pod share the list but perhaps not the user, and a busy raylet need not
// answer.
func Running(session string) (bool, error) {
	list, err := os.Open("/proc/net/unix")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // not Linux
	}
	if err != nil {
		return false, fmt.Errorf("look for the raylet's socket: %w", err)
	}
	defer list.Close()
	running, err := listens(list, path.Join("/", session, "sockets", "raylet"))
	if err != nil {
		return false, fmt.Errorf("look for the raylet's socket: %w", err)
	}
	return running, nil
}

// listening is the flag of a socket that takes connections (__SO_ACCEPTCON in the kernel's net.h).
const listening = "00010000"

// listens looks in the kernel's list for a listening socket whose path has this suffix. The columns are Num, RefCount, Protocol, Flags, Type,
// St, Inode, Path.
func listens(list io.Reader, suffix string) (bool, error) {
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		if columns := strings.Fields(lines.Text()); len(columns) >= 8 && columns[3] == listening && strings.HasSuffix(lines.Text(), suffix) {
			return true, nil
		}
	}
	return false, lines.Err()
}
